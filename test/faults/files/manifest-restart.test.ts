import { mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import type { FilesPair } from "../../scenarios/files/pair.ts";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";
import { openTempExports } from "../../unit/workspace/temp-exports.ts";

const fileCount = 5_000;
const fileBytes = 2_048;

function nameOf(index: number): string {
  return `d${index % 50}/f${index}`;
}

function fill(dir: string): void {
  for (let at = 0; at < 50; at += 1) mkdirSync(join(dir, `d${at}`));
  for (let at = 0; at < fileCount; at += 1)
    writeFileSync(join(dir, nameOf(at)), String(at).padEnd(fileBytes, "."));
}

/** Bytes that the process has read so far, from files and from everything else. */
function bytesReadBy(pid: number): number {
  return Number(/^rchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1]);
}

async function manifestOf(pair: FilesPair): ReturnType<typeof readManifestOf> {
  return readManifestOf(pair.client.manifest({ workspace: "devbox:/app", path: "" }));
}

/**
 * An edit in the tick in which the digest was taken: size, times and inode are those of the reading, the content is not.
 * Newer kernels give such an edit a time of its own, so the kept record is made what it was on an older one.
 */
async function editInOneTick(): Promise<void> {
  await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), "old"));
  const kept = join(temp.homeDir, "node", "manifest", "app.manifest");
  for (const [sinceMs, expected] of [
    [0, "new"],
    [20, "new"],
    // Long after the tick nothing could have hidden itself: the record is believed.
    [60_000, "old"],
  ] as const) {
    writeFileSync(join(temp.dir, "file"), "old");
    await readManifestOf(temp.manifest());
    writeFileSync(join(temp.dir, "file"), "new");
    const { mtimeNs, ctimeNs, ino, dev } = statSync(join(temp.dir, "file"), { bigint: true });
    const id = `${dev.toString(36)}.${ino.toString(36)}`;
    const hashedAtMs = Number(ctimeNs / 1_000_000n) + sinceMs;
    const row = ["file", 0o644, 3, String(mtimeNs), String(ctimeNs), id, hashedAtMs, digestOf("old")];
    const lines = `{"manifest":1}\n${JSON.stringify(["", row])}\n`;
    await temp.restartManifests(() => writeFileSync(kept, `${lines}${digestOf(lines).slice(7)}\n`));
    expect((await readManifestOf(temp.manifest())).entries["file"]).toBe(digestOf(expected));
  }
}

proves(
  "files.manifest-across-restart",
  "a restarted agent reads nothing of an unchanged tree again, and sees every edit that hides itself",
  { timeout: 120_000 },
  async () => {
    await using pair = await startFilesPair();
    const { node, workspace } = pair;
    fill(workspace.path);
    const first = await manifestOf(pair);
    expect(first.trailer).toMatchObject({ files: BigInt(fileCount), failed: 0n });
    // What was read in the tick of its writing is read once more; then it is known.
    await expect
      .poll(async () => (await manifestOf(pair)).trailer?.hashedFiles, { timeout: 30_000 })
      .toBe(0n);
    await node.restart();
    await expect.poll(() => pair.client.listExports({})).toMatchObject({ exports: [{ state: "available" }] });

    const before = bytesReadBy(node.pid);
    const again = await manifestOf(pair);
    expect(again.trailer).toMatchObject({ files: BigInt(fileCount), hashedFiles: 0n, hashedBytes: 0n });
    expect(again.digest).toBe(first.digest);
    // The kept manifest is read, and no content: that alone would be ten million bytes.
    expect(bytesReadBy(node.pid) - before).toBeLessThan((fileCount * fileBytes) / 4);

    const edited = join(workspace.path, nameOf(7));
    const { mtime, atime } = statSync(edited);
    const content = "7".padEnd(fileBytes, "!");
    writeFileSync(edited, content);
    utimesSync(edited, atime, mtime);
    expect(statSync(edited)).toMatchObject({ size: fileBytes, mtime });
    const last = await manifestOf(pair);
    expect(last.entries[nameOf(7)]).toBe(digestOf(content));
    expect(last.digest).not.toBe(first.digest);
    expect(last.trailer?.hashedFiles).toBe(1n);

    await editInOneTick();
  },
);
