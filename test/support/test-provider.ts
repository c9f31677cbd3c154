import type { EmbeddingProvider } from "../../gateway/memory/embedding/embedding-provider.ts";
import {
  defaultBatchTexts,
  type EmbeddingSettings,
} from "../../gateway/memory/embedding/embedding-settings.ts";
import { createOpenAiProvider } from "../../gateway/memory/embedding/openai-provider.ts";
import { systemClock } from "../../shared/lifetime/clock.ts";

/** A real provider that calls the embedding server of a test; what is not said is at its default. */
export function openTestProvider(
  server: { readonly baseUrl: string },
  more: Partial<EmbeddingSettings> = {},
): EmbeddingProvider {
  return createOpenAiProvider(
    {
      kind: "compatible",
      baseUrl: server.baseUrl,
      model: "test-model",
      dimensions: undefined,
      apiKey: undefined,
      maxCalls: 4,
      callsPerMinute: undefined,
      batchTexts: defaultBatchTexts,
      timeoutMs: 30_000,
      ...more,
    },
    systemClock,
  );
}
