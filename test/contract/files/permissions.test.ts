import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { ExportSettings } from "../../../node-agent/workspace/export-settings.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { faultOf } from "../../support/tool-calls.ts";

const workspace = "devbox:/app";

function fill(dir: string): void {
  mkdirSync(join(dir, "d"));
  writeFileSync(join(dir, "d/file"), "content");
}

async function write({ client }: FilesKit, path: string): Promise<unknown> {
  const bytes = Buffer.from("new");
  return client.write(
    (async function* () {
      const header = { workspace, path, precondition: WritePrecondition.ANY, sizeBytes: 3n };
      yield { part: { case: "header" as const, value: header } };
      yield { part: { case: "chunk" as const, value: bytes } };
      yield { part: { case: "trailer" as const, value: { sizeBytes: 3n, digest: digestOf(bytes) } } };
    })(),
  );
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
