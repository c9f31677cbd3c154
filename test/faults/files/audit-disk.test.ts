import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { canMount, mountTmpfs } from "./tmpfs.ts";

const workspace = "devbox:/app";

function fill(dir: string): void {
  mkdirSync(join(dir, "d"));
  writeFileSync(join(dir, "d/file"), "old");
}

function write({ client }: FilesKit, path: string): Promise<unknown> {
  return writeWhole(client, { workspace, path, content: "new" });
}

proves(
  "files.audit-cannot-be-written",
  "where no record can be stored nothing is written, removed or moved",
  { timeout: 60_000, skip: !canMount() },
  async () => {
    await using disk = await mountTmpfs(8 * 1024 * 1024);
    await using kit = await openFilesKit({ fill, home: disk });
    await kit.client.stat({ workspace, path: "d/file" });
    // The gateway's disk is full from now on; that of the node has room.
    await fillDisk(disk.join("ballast"));
    const changes: Readonly<Record<string, () => Promise<unknown>>> = {
      write: () => write(kit, "d/file"),
      "write anew": () => write(kit, "d/new"),
      remove: () => kit.client.remove({ workspace, path: "d/file" }),
      "remove all": () => kit.client.remove({ workspace, path: "d", recursive: true }),
      move: () => kit.client.move({ workspace, from: "d/file", to: "moved" }),
    };
    for (const [name, run] of Object.entries(changes)) {
      const fault = await faultOf(run());
      expect([name, ["DISK_FULL", "IO_ERROR"].includes(fault.code), fault.code]).toEqual([
        name,
        true,
        fault.code,
      ]);
      expect(readdirSync(kit.dir, { recursive: true })).toEqual(["d", "d/file"]);
      expect(readFileSync(join(kit.dir, "d/file"), "utf8")).toBe("old");
    }
  },
);

async function fillDisk(file: string): Promise<void> {
  for (let part = 0, size = 1024 * 1024; size >= 512; part += 1) {
    try {
      await writeFile(`${file}-${part}`, Buffer.alloc(size, "x"));
    } catch {
      size = Math.floor(size / 2);
    }
  }
}
