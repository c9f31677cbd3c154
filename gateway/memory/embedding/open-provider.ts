import type { Clock } from "../../../shared/lifetime/clock.ts";
import type { EmbeddingProvider } from "./embedding-provider.ts";
import type { EmbeddingSource } from "./embedding-settings.ts";
import { createOpenAiProvider } from "./openai-provider.ts";
import { checkGivenKey, readKeyFile } from "./read-key-file.ts";

/** What a provider takes besides its settings. */
export interface OpenProviderDeps {
  readonly clock: Clock;
  /** The key when the settings name no file. A secret. */
  readonly embeddingsKey?: string | undefined;
}

/** The provider of the settings with its key; undefined without one. `INVALID_ARGUMENT` for a key that cannot be had. */
export async function openEmbeddingProvider(
  source: EmbeddingSource | undefined,
  { clock, embeddingsKey }: OpenProviderDeps,
): Promise<EmbeddingProvider | undefined> {
  if (!source) return undefined;
  const { apiKeyFile, ...settings } = source;
  const apiKey = apiKeyFile === undefined ? checkGivenKey(embeddingsKey) : await readKeyFile(apiKeyFile);
  return createOpenAiProvider({ ...settings, apiKey }, clock);
}
