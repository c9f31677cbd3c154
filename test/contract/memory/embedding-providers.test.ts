import { expect, test } from "vitest";
import { checkVectors } from "../../../gateway/memory/embedding/check-vectors.ts";
import type { EmbeddingProvider } from "../../../gateway/memory/embedding/embedding-provider.ts";
import {
  embeddingDefaults,
  embeddingKinds,
  type EmbeddingSettings,
} from "../../../gateway/memory/embedding/embedding-settings.ts";
import { readRetryAfterMs } from "../../../gateway/memory/embedding/retry-after.ts";
import { type EmbeddingServer, startEmbeddingServer, toTestVector } from "../../support/embedding-server.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { openTestProvider } from "../../support/test-provider.ts";

const timeout = 60_000;
const kinds = embeddingKinds.filter((kind) => kind !== "none");
const never = new AbortController().signal;

const open = (server: EmbeddingServer, more: Partial<EmbeddingSettings> = {}): EmbeddingProvider =>
  openTestProvider(server, { maxCalls: embeddingDefaults[more.kind ?? "compatible"].maxCalls, ...more });

const toUnit = (text: string, dimensions: number): readonly number[] => [
  ...(checkVectors([toTestVector(text, dimensions, "test-model")], { texts: 1, dimensions: undefined })[0] ??
    []),
];

proves(
  "memory.providers",
  "every provider answers in order, within its number of calls, ends a call that is cancelled, and none is said",
  { timeout },
  async () => {
    for (const kind of kinds) {
      await using server = await startEmbeddingServer();
      const provider = open(server, { kind, apiKey: "key-of-the-test" });
      const texts = Array.from({ length: 20 }, (_, at) => `text number${at} of ${kind}`);
      // The rows of the answer come in another order: what counts is their index.
      server.fault = { kind: "rows", change: (rows) => rows.toReversed() };
      const vectors = await provider.embed(texts, { signal: never, urgency: "index" });
      expect(
        vectors.map((vector) => [...vector]),
        kind,
      ).toEqual(texts.map((text) => toUnit(text, 64)));
      expect(server.calls[0]?.authorization).toBe("Bearer key-of-the-test");
      server.fault = undefined;

      // Calls wait at the server until all that may be open are.
      let waiting: (() => void)[] = [];
      server.before = () => new Promise((resolve) => void waiting.push(resolve));
      const many = Array.from({ length: provider.maxCalls * 3 }, (_, at) =>
        provider.embed([`one ${at}`], { signal: never, urgency: at % 2 === 0 ? "index" : "search" }),
      );
      for (let answered = 0; answered < many.length;) {
        const due = Math.min(provider.maxCalls, many.length - answered);
        await expect.poll(() => waiting.length, { timeout: 20_000 }).toBe(due);
        const now = waiting;
        waiting = [];
        answered += now.length;
        for (const go of now) go();
      }
      await Promise.all(many);
      expect(server.mostOpen, kind).toBe(provider.maxCalls);
      expect(provider.maxCalls).toBe({ ollama: 1, lmstudio: 1 }[kind as string] ?? 4);

      // A call that is cancelled ends at the server too, and its place is free again.
      server.before = undefined;
      server.fault = { kind: "silent" };
      const cancel = new AbortController();
      const stuck = Array.from({ length: provider.maxCalls }, () =>
        provider.embed(["never"], { signal: cancel.signal, urgency: "index" }),
      );
      const ends = Promise.allSettled(stuck);
      await expect
        .poll(() => server.calls.filter(({ texts: [text] }) => text === "never").length)
        .toBe(stuck.length);
      const reason = new Error("no more");
      cancel.abort(reason);
      expect((await ends).map((end) => (end.status === "rejected" ? end.reason : end.value))).toEqual(
        stuck.map(() => reason),
      );
      const nevers = server.calls.filter(({ texts: [text] }) => text === "never");
      await expect.poll(() => nevers.every(({ isGone }) => isGone), { timeout: 20_000 }).toBe(true);
      server.fault = undefined;
      expect(await provider.embed(["after"], { signal: never, urgency: "search" })).toHaveLength(1);
    }

    await using workspace = await makeTempWorkspace({ "MEMORY.md": "settle period\n" });
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    const found = await kit.memory.search({ query: "settle", waitFresh: true });
    expect(found).toMatchObject({ partial: false, vectors: { provider: "none", state: "none" } });
    expect(found.hits).toMatchObject([{ path: "MEMORY.md" }]);
    expect(kit.memory.vectors()).toMatchObject({ provider: "none", state: "none", fault: undefined });
    await using gateway = await startGateway();
    expect(await gateway.json(["memory", "status"])).toMatchObject({
      vectors: { provider: "none", state: "none" },
    });
    const status = await gateway.cli(["memory", "status"]);
    expect(`${status.stdout}${status.stderr}`).toContain("searches are by keyword");
  },
);

test("what a provider answers instead of vectors is a fault that says what to do", { timeout }, async () => {
  await using server = await startEmbeddingServer();
  const provider = open(server, { apiKey: "key-of-the-test", timeoutMs: 30_000 });
  const embed = (): Promise<unknown> => provider.embed(["a", "b"], { signal: never, urgency: "index" });
  const answers = [
    [
      { kind: "status", status: 429, headers: { "retry-after": "7" } },
      { code: "RATE_LIMITED", details: { retryAfterMs: 7_000 } },
    ],
    [
      { kind: "status", status: 401 },
      { code: "IO_ERROR", details: { reason: "embedding_refused" } },
    ],
    [
      { kind: "status", status: 503 },
      { code: "IO_ERROR", details: { reason: "embedding_failed" } },
    ],
    [{ kind: "status", status: 400 }, { code: "INVALID_ARGUMENT" }],
    [{ kind: "status", status: 302, headers: { location: "http://127.0.0.1:1/" } }, { code: "IO_ERROR" }],
    [{ kind: "rows", change: (rows: readonly unknown[]) => rows.slice(1) }, { code: "INTEGRITY_FAILURE" }],
    [{ kind: "rows", change: () => "nothing" }, { code: "INTEGRITY_FAILURE" }],
  ] as const;
  for (const [fault, expected] of answers) {
    server.fault = fault;
    const error = await embed().then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject(expected);
    expect(JSON.stringify([error, String(error)])).not.toContain("key-of-the-test");
  }
  server.fault = { kind: "silent" };
  await expect(
    open(server, { timeoutMs: 100 }).embed(["a"], { signal: never, urgency: "index" }),
  ).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
  });
  const { baseUrl } = server;
  await server[Symbol.asyncDispose]();
  await expect(
    open({ ...server, baseUrl }).embed(["a"], { signal: never, urgency: "index" }),
  ).rejects.toMatchObject({
    code: "IO_ERROR",
    details: { reason: "embedding_unreachable" },
  });
});

test("a waiting time is read from seconds and from a date", () => {
  expect(readRetryAfterMs(null, 0)).toBeUndefined();
  expect(readRetryAfterMs("2", 0)).toBe(2_000);
  expect(readRetryAfterMs("soon", 0)).toBeUndefined();
  expect(readRetryAfterMs("Thu, 01 Jan 1970 00:00:05 GMT", 1_000)).toBe(4_000);
  expect(readRetryAfterMs("-5", 0)).toBe(0);
  expect(readRetryAfterMs("99999999", 0)).toBe(3_600_000);
});
