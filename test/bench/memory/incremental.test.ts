import { expect } from "vitest";
import { startEmbeddingServer } from "../../support/embedding-server.ts";
import { type MemoryKit, openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { openTestProvider } from "../../support/test-provider.ts";
import { median } from "../support/report.ts";

const files = 1_000;
const edits = 9;
const patience = { timeout: 300_000, interval: 5 };
const textOf = (file: number, edited = ""): string =>
  Array.from(
    { length: 8 },
    (_, at) => `## Part ${at} of ${file}\n\n${edited}${`word${file}x${at} `.repeat(60)}\n`,
  ).join("\n");

/** How long it takes until every file is in the index as it is on the node, vectors included, in milliseconds. */
async function timeUntilCurrent(kit: MemoryKit, startedAt: number): Promise<number> {
  await expect
    .poll(async () => (await kit.memory.status())[0], patience)
    .toMatchObject({ fresh: true, files, pending: 0, missingVectors: 0 });
  return performance.now() - startedAt;
}

proves(
  "memory.bench-incremental",
  "after an edit of one of 1,000 files the index is current again in a fiftieth of the first indexing's time",
  { timeout: 900_000 },
  async () => {
    for (const withVectors of [false, true]) {
      await using server = await startEmbeddingServer();
      await using workspace = await makeTempWorkspace(
        Object.fromEntries(
          Array.from({ length: files }, (_, file) => [`memory/${file % 10}/n${file}.md`, textOf(file)]),
        ),
      );
      await using kit = await openMemoryKit(withVectors ? { provider: openTestProvider(server) } : {});
      const startedAt = performance.now();
      await kit.addNode("devbox", { app: workspace.path });
      const firstMs = await timeUntilCurrent(kit, startedAt);
      const times: number[] = [];
      for (let edit = 0; edit < edits; edit += 1) {
        const sent = server.embedded.length;
        await workspace.write({ "memory/3/n333.md": textOf(333, `edit${edit} `) });
        const editedAt = performance.now();
        const { hits, workspaces } = await kit.memory.search({ query: `edit${edit}`, waitFresh: true });
        const foundMs = performance.now() - editedAt;
        expect(hits[0]?.path).toBe("memory/3/n333.md");
        expect(workspaces).toMatchObject([{ fresh: true }]);
        // With vectors it is current once what changed has its own, and nothing else was embedded.
        const currentMs = await timeUntilCurrent(kit, editedAt);
        times.push(withVectors ? currentMs : foundMs);
        expect(server.embedded.slice(sent).length).toBeLessThanOrEqual(10);
      }
      const editMs = median(times);
      console.log(
        `\nmemory, ${files} files${withVectors ? ", with vectors" : ""}: first index ${firstMs.toFixed(0)} ms, one edit ` +
          `${editMs.toFixed(0)} ms (${times.map((ms) => ms.toFixed(0)).join(", ")}), 1 : ${(firstMs / editMs).toFixed(0)}`,
      );
      // With vectors the wait for them is asked for by comparing all files again, which is counted.
      expect(firstMs / editMs).toBeGreaterThanOrEqual(withVectors ? 20 : 50);
    }
  },
);
