import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { defaultChunkSize, toChunks } from "../../../gateway/memory/chunks.ts";
import { createIndexHost, type RemoteIndex } from "../../../gateway/memory/index-host.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import type { VectorStoreOptions } from "../../../gateway/memory/vector-store.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { type MemoryKit, openMemoryKit } from "../../support/memory-kit.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { median } from "../support/report.ts";

const isQuick = process.env["FAIRLEAD_BENCH"] === "quick";
const passages = isQuick ? 10_000 : 100_000;
const files = isQuick ? 1_000 : 10_000;
const dimensions = 256;
const mebi = 1024 * 1024;
const patience = { timeout: 600_000, interval: 20 };

/** Numbers below 1 that are the same in every run. */
function* countFrom(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 4_294_967_296;
  }
}

/** Words as a language has them: few of them often, most of them seldom. */
function createWriter(seed: number): (words: number) => string {
  const numbers = countFrom(seed);
  const word = (): string => `w${Math.floor(20_000 * numbers.next().value ** 3)}`;
  return (words) => Array.from({ length: words }, word).join(" ");
}

function makeVector(numbers: Iterator<number, never>): Float32Array {
  const vector = Float32Array.from({ length: dimensions }, () => numbers.next().value - 0.5);
  const length = Math.hypot(...vector);
  return vector.map((number) => number / length);
}

interface Times {
  readonly p50: number;
  readonly p99: number;
}

async function timeEach(count: number, run: (at: number) => Promise<unknown>): Promise<Times> {
  const times: number[] = [];
  for (let at = 0; at < count; at += 1) {
    const startedAt = performance.now();
    await run(at);
    times.push(performance.now() - startedAt);
  }
  const sorted = times.toSorted((a, b) => a - b);
  return { p50: median(times), p99: sorted[Math.floor(count * 0.99)] ?? Number.NaN };
}

function say(text: string): void {
  const load = loadavg()[0]?.toFixed(1) ?? "";
  console.log(`\nmemory: ${text} (${cpus().length} cores, load ${load}, Node ${process.versions.node})`);
}

const show = ({ p50, p99 }: Times): string => `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`;

async function openIndex(
  path: string,
  vectors: VectorStoreOptions,
): Promise<AsyncDisposable & { index: RemoteIndex }> {
  const host = createIndexHost({ cache: undefined, identity: "model", chunkSize: defaultChunkSize, vectors });
  const index = await host.open(path);
  return { index, [Symbol.asyncDispose]: () => host[Symbol.asyncDispose]() };
}

test(
  `search over ${passages} passages: by words, and with vectors in memory, by the extension and plainly`,
  { timeout: 1_800_000 },
  async () => {
    await using folder = await makeTempFolder();
    const write = createWriter(1);
    const numbers = countFrom(2);
    const path = folder.join("index.db");
    const inMemory = { maxMemoryBytes: 1_073_741_824, native: false };
    {
      await using opened = await openIndex(path, inMemory);
      const { index } = opened;
      for (let file = 0; file < passages / 100; file += 1) {
        const text = Array.from({ length: 100 }, (_, at) => `# Part ${at} of ${file}\n\n${write(90)}\n`).join(
          "\n",
        );
        const facts = { digest: digestOf(text), sizeBytes: text.length, modifiedMs: 0, fault: undefined };
        await index.put(`memory/n${file}.md`, facts, text);
      }
      expect(index.chunkCount).toBeGreaterThanOrEqual(passages * 0.9);
      for (
        let found = await index.findMissing(2_000, []);
        found.length > 0;
        found = await index.findMissing(2_000, [])
      ) {
        const vectors = found.map(({ digest }) => ({ digest, vector: makeVector(numbers) }));
        await index.putVectors("model", vectors);
      }
    }
    const ask = createWriter(3);
    const queries = Array.from({ length: 200 }, () => toKeywordQuery(ask(2)));
    const vectors = Array.from({ length: 50 }, () => makeVector(numbers));
    const ways = {
      "in memory": inMemory,
      "by the extension": { maxMemoryBytes: 0, native: true },
      plainly: { maxMemoryBytes: 0, native: false },
    };
    const times = new Map<string, Times>();
    for (const [name, way] of Object.entries(ways)) {
      await using opened = await openIndex(path, way);
      const { index } = opened;
      const search = (at: number, vector?: Float32Array): Promise<unknown> =>
        index.search({
          query: queries[at % queries.length] ?? toKeywordQuery("w1"),
          limit: 40,
          meaning: vector && { identity: "model", vector },
        });
      await search(0, vectors[0]);
      if (name === "in memory") times.set("words", await timeEach(200, (at) => search(at)));
      times.set(name, await timeEach(name === "in memory" ? 50 : 10, (at) => search(at, vectors[at])));
    }
    for (const [name, each] of times) say(`search over ${passages} passages, ${name}: ${show(each)}`);
    const words = times.get("words")?.p50 ?? Number.NaN;
    const withVectors = times.get("in memory")?.p50 ?? Number.NaN;
    say(`with ${dimensions} numbers a vector: ${(withVectors / words).toFixed(1)} × the words alone`);
    // In memory is what is used as long as it fits, and must be worth it.
    expect(withVectors).toBeLessThan(times.get("plainly")?.p50 ?? 0);
  },
);

async function untilIndexed(kit: MemoryKit): Promise<void> {
  await expect
    .poll(async () => (await kit.memory.status())[0], patience)
    .toMatchObject({ fresh: true, files, pending: 0 });
}

async function residentBytes(pid: number | "self"): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}

/** Reads every file and inserts its passages with an index of their words: what nobody can do without. */
function timePlain(dir: string, paths: readonly string[]): number {
  using database = new DatabaseSync(join(dir, "plain.db"));
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE VIRTUAL TABLE words USING fts5 (text)",
  );
  const insert = database.prepare("INSERT INTO words (text) VALUES (?)");
  const startedAt = performance.now();
  for (const path of paths) {
    database.exec("BEGIN");
    for (const { text } of toChunks(readFileSync(path, "utf8"))) insert.run(text);
    database.exec("COMMIT");
  }
  return performance.now() - startedAt;
}

test(
  `${files} files: the first index, an edit, what it takes of memory`,
  { timeout: 1_800_000 },
  async () => {
    await using folder = await makeTempFolder();
    const write = createWriter(4);
    const texts = Object.fromEntries(
      Array.from({ length: files }, (_, file) => [
        `memory/${file % 100}/n${file}.md`,
        Array.from({ length: 10 }, (_, at) => `## Part ${at}\n\n${write(70)}\n`).join("\n"),
      ]),
    );
    await using workspace = await makeTempWorkspace(texts);
    const plainMs = timePlain(
      folder.path,
      Object.keys(texts).map((path) => join(workspace.path, path)),
    );

    const loop = monitorEventLoopDelay({ resolution: 5 });
    await using kit = await openMemoryKit();
    const before = await residentBytes("self");
    const startedAt = performance.now();
    loop.enable();
    await kit.addNode("devbox", { app: workspace.path });
    await untilIndexed(kit);
    const firstMs = performance.now() - startedAt;
    loop.disable();
    say(
      `first index of ${files} files: ${firstMs.toFixed(0)} ms; reading and inserting alone ${plainMs.toFixed(0)} ms, ` +
        `${(firstMs / plainMs).toFixed(1)} ×; longest turn of the event loop ${(loop.max / 1e6).toFixed(0)} ms`,
    );

    const path = "memory/7/n7.md";
    const readsOf = (): number => kit.links.calls.filter((call) => call.endsWith("/Read")).length;
    const reads = readsOf();
    const waiting = await timeEach(11, async (at) => {
      await workspace.write({ [path]: `${texts[path]}\nedited${at} just now\n` });
      const { hits } = await kit.memory.search({ query: `edited${at}`, waitFresh: true });
      expect(hits[0]?.path).toBe(path);
    });
    say(`an edit among ${files} files, to an answer that waited for it: ${show(waiting)}`);
    // Read once when asked for, and at most once more when the watch tells of it.
    expect(readsOf() - reads).toBeLessThanOrEqual(22);
    const asking = await timeEach(11, async (at) => {
      await workspace.write({ [path]: `${texts[path]}\nasked${at} just now\n` });
      await expect
        .poll(async () => (await kit.memory.search({ query: `asked${at}` })).hits[0]?.path, patience)
        .toBe(path);
    });
    say(`an edit to the right answer of whoever keeps asking: ${show(asking)}`);

    const workers = findProcesses("memory-worker");
    const worker = Math.max(
      0,
      ...(await Promise.all(workers.map((pid) => residentBytes(pid).catch(() => 0)))),
    );
    const grown = (await residentBytes("self")) - before;
    say(
      `resident after ${files} files: gateway's side ${(grown / mebi).toFixed(0)} MiB more than before, ` +
        `worker ${(worker / mebi).toFixed(0)} MiB`,
    );
    expect(firstMs / plainMs).toBeLessThan(20);
  },
);
