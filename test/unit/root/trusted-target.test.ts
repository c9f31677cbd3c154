import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { nodeConfigSchema } from "../../../node-agent/config/node-config.ts";
import { openWorkspace } from "../../../node-agent/workspace/open-workspace.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { exportOf } from "../workspace/temp-exports.ts";

const workspace = "devbox:/app";

/** A workspace with links to two folders outside, one of which may be written, and to one that is not named. */
async function openLinked(
  isNamed: boolean,
): Promise<FilesKit & { readonly vault: string; readonly notes: string }> {
  const outside = await makeTempFolder();
  for (const name of ["vault", "notes", "private"]) {
    mkdirSync(outside.join(name, "deep"), { recursive: true });
    writeFileSync(outside.join(name, "deep/file.md"), `of ${name}`);
    writeFileSync(outside.join(name, ".env"), "secret");
  }
  symlinkSync("file.md", outside.join("vault/deep/alias"));
  symlinkSync("../private", outside.join("vault/out"));
  const allowSymlinkTargets = [
    { path: outside.join("vault"), write: false },
    { path: outside.join("notes"), write: true },
  ];
  const kit = await openFilesKit({
    fill: (dir) => {
      for (const name of ["vault", "notes", "private"]) symlinkSync(outside.join(name), join(dir, name));
      symlinkSync(outside.join("vault/deep"), join(dir, "deep"));
      symlinkSync(outside.join("notes/deep/file.md"), join(dir, "one.md"));
    },
    settings: { followSymlinks: true, ...(isNamed ? { allowSymlinkTargets } : {}) },
  });
  return {
    ...kit,
    vault: outside.join("vault"),
    notes: outside.join("notes"),
    [Symbol.asyncDispose]: async () => {
      await kit[Symbol.asyncDispose]();
      await outside[Symbol.asyncDispose]();
    },
  };
}

async function read({ client }: FilesKit, path: string): Promise<{ text: string; canonicalPath: string }> {
  const parts = await Array.fromAsync(client.read({ workspace, path }));
  const [first] = parts;
  const chunks = parts.flatMap(({ part }) => (part.case === "chunk" ? [part.value] : []));
  const canonicalPath = first?.part.case === "header" ? (first.part.value.source?.canonicalPath ?? "") : "";
  return { text: Buffer.concat(chunks).toString(), canonicalPath };
}

const write = ({ client }: FilesKit, path: string): Promise<unknown> =>
  writeWhole(client, { workspace, path, content: "new" });

describe("a link to a folder outside", () => {
  proves(
    "files.symlink-trusted-target",
    "leads there where the node's settings name the folder",
    async () => {
      await using kit = await openLinked(true);
      const { client } = kit;
      expect(await read(kit, "vault/deep/file.md")).toEqual({
        text: "of vault",
        canonicalPath: "vault/deep/file.md",
      });
      expect(await read(kit, "vault/deep/alias")).toEqual({
        text: "of vault",
        canonicalPath: "vault/deep/file.md",
      });
      expect(await read(kit, "deep/file.md")).toEqual({
        text: "of vault",
        canonicalPath: "deep/file.md",
      });
      expect(await read(kit, "one.md")).toEqual({ text: "of notes", canonicalPath: "one.md" });
      const listed = await client.list({ workspace, path: "vault", recursive: true });
      expect(listed.entries.map(({ path, linkTarget }) => `${path} ${linkTarget}`.trim())).toEqual([
        "vault/deep",
        "vault/deep/alias file.md",
        "vault/deep/file.md",
        "vault/out",
      ]);
      const tree = await Array.fromAsync(client.readTree({ workspace, path: "notes" }));
      expect(tree.flatMap(({ entries }) => entries.map(({ entry }) => entry?.path))).toEqual([
        "deep",
        "deep/file.md",
      ]);
      const manifest = await Array.fromAsync(client.manifest({ workspace, path: "notes" }));
      expect(manifest.flatMap(({ entries }) => entries.map(({ digest }) => digest))).toContain(
        digestOf("of notes"),
      );
      // The rules for paths hold behind it too, and a link in it leads no further.
      expect(await faultOf(read(kit, "vault/.env"))).toMatchObject({ code: "POLICY_DENIED" });
      expect(await faultOf(read(kit, "vault/out/deep/file.md"))).toMatchObject({ code: "PATH_ESCAPES" });

      expect(await faultOf(write(kit, "one.md"))).toMatchObject({ code: "SYMLINK_REFUSED" });
      await write(kit, "notes/deep/new/made.md");
      await write(kit, "notes/deep/file.md");
      expect(readFileSync(join(kit.notes, "deep/new/made.md"), "utf8")).toBe("new");
      expect(readFileSync(join(kit.notes, "deep/file.md"), "utf8")).toBe("new");
      await client.move({ workspace, from: "notes/deep/file.md", to: "notes/moved.md" });
      await client.remove({ workspace, path: "notes/deep", recursive: true });
      const changes: readonly (() => Promise<unknown>)[] = [
        () => write(kit, "vault/deep/file.md"),
        () => write(kit, "vault/made.md"),
        () => client.remove({ workspace, path: "vault/deep/file.md" }),
        () => client.remove({ workspace, path: "vault/deep", recursive: true }),
        () => client.move({ workspace, from: "vault/deep/file.md", to: "taken.md" }),
        () => client.move({ workspace, from: "notes/moved.md", to: "vault/moved.md" }),
        () => client.makeFolder({ workspace, path: "vault/folder" }),
        () =>
          client.writeTree(
            (async function* () {
              yield { header: { workspace, path: "vault/tree", precondition: WritePrecondition.ANY } };
            })(),
          ),
      ];
      for (const [index, change] of changes.entries()) {
        const fault = await faultOf(change());
        expect([index, fault]).toMatchObject([
          index,
          {
            code: "POLICY_DENIED",
            details: { rule: "allowSymlinkTargets", side: "node" },
            hint: expect.stringContaining("allowSymlinkTargets"),
          },
        ]);
      }
      expect(readFileSync(join(kit.vault, "deep/file.md"), "utf8")).toBe("of vault");
      expect(readFileSync(join(kit.notes, "moved.md"), "utf8")).toBe("new");
    },
  );

  proves("files.symlink-trusted-target", "leads nowhere without, and the setting is named", async () => {
    for (const isNamed of [true, false]) {
      await using kit = await openLinked(isNamed);
      const path = isNamed ? "private/deep/file.md" : "vault/deep/file.md";
      const escapes = {
        code: "PATH_ESCAPES",
        hint: expect.stringContaining("allowSymlinkTargets") as string,
      };
      expect(await faultOf(read(kit, path))).toMatchObject(escapes);
      expect(await faultOf(write(kit, path))).toMatchObject(escapes);
      expect(await faultOf(kit.client.list({ workspace, path: path.split("/")[0] ?? "" }))).toMatchObject(
        escapes,
      );
    }
  });

  test("is followed to what stands at the named path now, and not to a link in its place", async () => {
    await using kit = await openLinked(true);
    renameSync(kit.vault, `${kit.vault}-before`);
    expect(await faultOf(read(kit, "vault/deep/file.md"))).toMatchObject({ code: "NOT_FOUND" });
    mkdirSync(join(kit.vault, "deep"), { recursive: true });
    writeFileSync(join(kit.vault, "deep/file.md"), "another");
    expect((await read(kit, "vault/deep/file.md")).text).toBe("another");
    rmSync(`${kit.vault}-before`, { recursive: true });
  });

  test("never leads to the state of this program, or to the whole disk", async () => {
    await using folder = await makeTempFolder();
    mkdirSync(folder.join("app"));
    mkdirSync(folder.join("home/node"), { recursive: true });
    const limits = { treeEntries: 10, treeDepth: 10 };
    for (const [path, code] of [
      [folder.join("home"), "POLICY_DENIED"],
      [folder.join("home/node"), "POLICY_DENIED"],
      [folder.path, "POLICY_DENIED"],
      ["/", "INVALID_ARGUMENT"],
    ] as const) {
      const allowSymlinkTargets = [{ path, write: true }];
      const settings = exportOf(folder.join("app"), { followSymlinks: true, allowSymlinkTargets });
      const opening = openWorkspace(settings, { homeDir: folder.join("home"), epoch: 1, limits });
      expect([path, await faultOf(opening)]).toMatchObject([path, { code }]);
    }
  });

  test("is named in the node's configuration, beside the setting that follows links at all", () => {
    const targets = [{ path: "~/vault" }, { path: "/srv/notes", write: true }];
    const of = (more: object): boolean =>
      nodeConfigSchema.safeParse({
        workspaces: [{ name: "app", dir: "/app", allowSymlinkTargets: targets, ...more }],
      }).success;
    expect([of({ followSymlinks: true }), of({}), of({ followSymlinks: false })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
