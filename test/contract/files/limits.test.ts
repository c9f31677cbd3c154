import { appendFileSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";

const workspace = "devbox:/app";
const chunk = 256 * 1024;

describe("a file over the machine's limit", () => {
  const limit = 3 * chunk + 7;
  const settings = { maxFileBytes: limit };

  proves("files.max-file-bytes", "is refused before its first byte, either way", async () => {
    await using kit = await openFilesKit({
      settings,
      fill: (dir) => {
        mkdirSync(join(dir, "d"));
        for (const [name, size] of [
          ["fits", limit],
          ["over", limit + 1],
        ] as const) {
          writeFileSync(join(dir, "d", name), "");
          truncateSync(join(dir, "d", name), size);
        }
      },
    });
    const match = (fault: Fault): void => {
      const hint: unknown = expect.stringContaining("maxFileBytes");
      expect(fault).toMatchObject({ code: "TOO_LARGE", details: { limit, actual: limit + 1 }, hint });
    };
    const parts: string[] = [];
    const reading = async (path: string): Promise<void> => {
      for await (const { part } of kit.client.read({ workspace, path })) parts.push(part.case ?? "");
    };
    match(await faultOf(reading("d/over")));
    expect(parts).toEqual([]);
    await reading("d/fits");
    expect(parts).toEqual(["header", "chunk", "chunk", "chunk", "chunk", "trailer"]);

    const sent: string[] = [];
    const writing = async (path: string, size: number): Promise<unknown> => {
      const bytes = Buffer.alloc(size);
      const sizeBytes = BigInt(size);
      return await kit.client.write(
        (async function* () {
          const header = { workspace, path, precondition: WritePrecondition.ANY, sizeBytes };
          yield { part: { case: "header" as const, value: header } };
          sent.push("chunk");
          yield { part: { case: "chunk" as const, value: bytes } };
          yield { part: { case: "trailer" as const, value: { sizeBytes, digest: digestOf(bytes) } } };
        })(),
      );
    };
    match(await faultOf(writing("new/over", limit + 1)));
    expect([sent, readdirSync(kit.dir)]).toEqual([[], ["d"]]);
    await writing("new/fits", limit);
    expect(readdirSync(join(kit.dir, "new"))).toEqual(["fits"]);

    const tree = await Array.fromAsync(kit.client.readTree({ workspace, path: "d" }));
    const problems = tree.flatMap((part) => part.problems);
    expect(problems.map(({ path }) => path)).toEqual(["over"]);
    for (const { fault } of problems) if (fault) match(fromWireFault(fault));
    const bytes = tree.reduce((total, { content }) => total + content.byteLength, 0);
    expect([bytes, tree.at(-1)?.treeTrailer?.files]).toEqual([limit, 1n]);
    const manifest = await Array.fromAsync(kit.client.manifest({ workspace, path: "d" }));
    expect(manifest.flatMap((part) => part.entries.map(({ path }) => path))).toEqual(["fits"]);
    for (const { fault } of manifest.flatMap((part) => part.problems)) if (fault) match(fromWireFault(fault));
  });

  proves(
    "files.max-file-bytes",
    "ends one that grows past it, with no byte behind the limit sent",
    async () => {
      await using kit = await openFilesKit({
        settings,
        fill: (dir) => mkdirSync(join(dir, "d")),
      });
      const file = join(kit.dir, "d/grows");
      for (const [before, more] of [
        [limit, 1],
        [2 * chunk + 1, 4 * chunk],
      ] as const) {
        const content = Buffer.alloc(before, "a");
        writeFileSync(file, content);
        const read: Buffer[] = [];
        const reading = async (): Promise<void> => {
          for await (const { part } of kit.client.read({ workspace, path: "d/grows" })) {
            if (part.case !== "chunk") continue;
            if (read.length === 0) appendFileSync(file, Buffer.alloc(more, "b"));
            read.push(Buffer.from(part.value));
          }
        };
        expect(await faultOf(reading())).toMatchObject({ code: "TOO_LARGE", details: { limit } });
        expect(read.length).toBeGreaterThan(0);
        expect(Buffer.concat(read).byteLength).toBeLessThanOrEqual(limit);

        writeFileSync(file, content);
        let treeBytes = 0;
        const problems: (string | undefined)[] = [];
        for await (const part of kit.client.readTree({ workspace, path: "d" })) {
          if (treeBytes === 0 && part.content.byteLength > 0) appendFileSync(file, Buffer.alloc(more, "b"));
          treeBytes += part.content.byteLength;
          for (const { path, fault } of part.problems)
            problems.push(path, fault && fromWireFault(fault).code);
        }
        expect(problems).toEqual(["grows", "TOO_LARGE"]);
        expect(treeBytes).toBeLessThanOrEqual(limit);
      }
    },
  );
});
