import { expect, test } from "vitest";
import {
  embeddingsSchema,
  memorySchema,
  resolveEmbeddings,
  resolveMemory,
  showEmbeddings,
  showMemory,
} from "../../../gateway/config/memory-config.ts";
import { createCallGate } from "../../../gateway/memory/embedding/call-gate.ts";
import { defaultMemorySettings } from "../../../gateway/memory/memory-settings.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const fault = (field: string): object =>
  expect.objectContaining({ code: "INVALID_ARGUMENT", details: expect.objectContaining({ field }) });

test("without a word there is no provider, and memory is at its defaults", () => {
  expect(resolveEmbeddings(undefined, "/home")).toBeUndefined();
  expect(resolveEmbeddings({ provider: "none", model: "x" }, "/home")).toBeUndefined();
  expect(resolveMemory(undefined)).toEqual(defaultMemorySettings);
  expect(resolveMemory(memorySchema.parse(showMemory(defaultMemorySettings)))).toEqual(defaultMemorySettings);
});

test("a provider brings its defaults, and what it has none for must be said", () => {
  const openai = resolveEmbeddings({ provider: "openai", apiKeyFile: "key.txt" }, "/home/gateway");
  expect(openai).toMatchObject({
    kind: "openai",
    baseUrl: "https://api.openai.com/v1",
    model: "text-embedding-3-small",
    maxCalls: 4,
    apiKeyFile: "/home/gateway/key.txt",
  });
  expect(resolveEmbeddings(embeddingsSchema.parse(showEmbeddings(openai)), "/")).toEqual(openai);
  expect(() => resolveEmbeddings({ provider: "ollama" }, "/")).toThrow(fault("embeddings.model"));
  expect(() => resolveEmbeddings({ provider: "compatible", model: "m" }, "/")).toThrow(
    fault("embeddings.baseUrl"),
  );
  for (const baseUrl of ["ftp://x/v1", "not an address", "https://u:p@x/v1", "https://x/v1?key=y"]) {
    expect(() => resolveEmbeddings({ provider: "vllm", model: "m", baseUrl }, "/")).toThrow(
      fault("embeddings.baseUrl"),
    );
  }
  expect(() => resolveMemory({ chunkTokens: 100, overlapTokens: 51 })).toThrow(fault("memory.overlapTokens"));
  expect(() => resolveMemory({ evergreen: ["../x"] })).toThrow(fault("memory.evergreen"));
  expect(resolveMemory({ timeDecay: true }).ranking.halfLifeDays).toBe(30);
  expect(resolveMemory({ halfLifeDays: 7 }).ranking.halfLifeDays).toBe(0);
});

test("calls are let in so many a minute, and searches before the rest", async () => {
  const clock = new ManualClock();
  const gate = createCallGate({ maxCalls: 1, callsPerMinute: 60, clock });
  const { signal } = new AbortController();
  const order: string[] = [];
  const enter = (name: string, urgency: "search" | "index"): Promise<void> =>
    gate.enter(urgency, signal, async () => void order.push(name));
  const all = [enter("first", "index"), enter("late", "index"), enter("query", "search")];
  await all[0];
  expect(order).toEqual(["first"]);
  for (let second = 0; second < 3; second += 1) {
    await clock.advance(1_000);
  }
  await Promise.all(all);
  expect(order).toEqual(["first", "query", "late"]);
  expect(gate.open).toBe(0);
});
