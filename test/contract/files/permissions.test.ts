import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ExportSettings } from "../../../node-agent/workspace/export-settings.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { storing } from "../../support/storing.ts";
import { writeWhole } from "../../support/write-whole.ts";

const workspace = "devbox:/app";

function fill(dir: string): void {
  mkdirSync(join(dir, "d"));
  writeFileSync(join(dir, "d/file"), "content");
}

function write({ client }: FilesKit, path: string): Promise<unknown> {
  return writeWhole(client, { workspace, path, content: "new" });
}

const kinds: Readonly<Record<"remove" | "move" | "mkdir", (kit: FilesKit) => readonly Promise<unknown>[]>> = {
  remove: ({ client }) => [
    client.remove({ workspace, path: "d/file" }),
    client.remove({ workspace, path: "d", recursive: true }),
  ],
  move: ({ client }) => [
    client.move({ workspace, from: "d/file", to: "moved" }),
    client.move({ workspace, from: "d", to: "moved" }),
  ],
  mkdir: ({ client }) => [client.makeFolder({ workspace, path: "made" })],
};

const off: Partial<ExportSettings> = { remove: false, move: false, mkdir: false };

proves(
  "files.permission-kinds",
  "a workspace that only allows reading and writing refuses to remove, to move and to make folders, on either side",
  async () => {
    const sides = [
      { side: "node", settings: off, policy: "" },
      {
        side: "gateway",
        settings: {},
        policy: "files:\n  all: { remove: false, move: false, mkdir: false }\n",
      },
    ];
    for (const { side, settings, policy } of sides) {
      await using kit = await openFilesKit({ fill, settings, policy });
      for (const [kind, run] of Object.entries(kinds)) {
        for (const work of run(kit)) {
          const fault = await faultOf(work);
          expect([kind, fault.code, fault.details["side"]]).toEqual([kind, "POLICY_DENIED", side]);
          expect(fault.details["rule"]).toContain(`${kind}_off`);
        }
      }
      expect(readdirSync(kit.dir, { recursive: true })).toEqual(["d", "d/file"]);
      expect(readFileSync(join(kit.dir, "d/file"), "utf8")).toBe("content");
      expect(await Array.fromAsync(kit.client.read({ workspace, path: "d/file" }))).toHaveLength(3);
      await write(kit, "d/file");
      expect(readFileSync(join(kit.dir, "d/file"), "utf8")).toBe("new");
    }
  },
);

test("a tree goes into a folder that may be written and not be read, and says where it went", async () => {
  await using kit = await openFilesKit({ fill, settings: { read: ["other"], write: ["**"] } });
  const answer = await kit.client.writeTree(storing("d", ["inner/"]));
  expect(answer).toMatchObject({ stored: { folders: 1n, failed: 0n }, source: { canonicalPath: "d" } });
  expect(readdirSync(join(kit.dir, "d"))).toEqual(["file", "inner"]);
});
