import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { FilesWatchKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";

const workspace = "devbox:/app";

const namesBelow = (dir: string): ReadonlySet<unknown> => {
  const names: readonly unknown[] = readdirSync(dir, { recursive: true });
  return new Set(names);
};

/** The paths of all that a manifest holds. */
async function manifested({ client }: FilesKit): Promise<readonly string[]> {
  const parts = await Array.fromAsync(client.manifest({ workspace, path: "" }));
  return parts.flatMap(({ entries, problems }) => [...entries, ...problems].map(({ path }) => path));
}

/** The paths of all that a watch tells of while `change` goes on, until it tells of `last`. */
async function watched({ client }: FilesKit, change: () => void, last: string): Promise<readonly string[]> {
  const paths: string[] = [];
  for await (const event of client.watch({ workspace, path: "" })) {
    if (event.kind === FilesWatchKind.AVAILABLE) change();
    if (event.path === "") continue;
    paths.push(...[event.path, event.from].filter((path) => path !== ""));
    if (event.path === last) break;
  }
  return paths;
}

proves(
  "files.denied-names-hidden",
  "what either side denies is taken along by no removal and no move, and shown nowhere",
  { timeout: 60_000 },
  async () => {
    const sides = [
      { side: "gateway", policy: "files:\n  shut: { deny: ['**/secret'] }\n", settings: {} },
      { side: "node", policy: "", settings: { deny: ["**/secret"] } },
    ];
    for (const { side, policy, settings } of sides) {
      const fill = (dir: string): void => {
        mkdirSync(join(dir, "d/deep/secret"), { recursive: true });
        writeFileSync(join(dir, "d/deep/secret/file"), "secret");
        // What cannot be read is listed too, among the problems.
        mkdirSync(join(dir, "odd"));
        execFileSync("mkfifo", [join(dir, "odd/secret"), join(dir, "odd/fifo")]);
        writeFileSync(join(dir, "d/seen"), "seen");
      };
      await using kit = await openFilesKit({ fill, policy, settings });
      const { client } = kit;
      const before = namesBelow(kit.dir);
      for (const work of [
        () => client.remove({ workspace, path: "d", recursive: true }),
        () => client.move({ workspace, from: "d", to: "elsewhere" }),
        () => client.remove({ workspace, path: "odd", recursive: true }),
        () => client.move({ workspace, from: "odd", to: "elsewhere" }),
      ]) {
        const fault = await faultOf(work());
        expect([fault.code, fault.details["side"]]).toEqual(["POLICY_DENIED", side]);
        expect(fault.details["rule"]).toContain("deny **/secret");
      }
      expect(namesBelow(kit.dir)).toEqual(before);

      const list = async (path: string, recursive: boolean): Promise<readonly string[]> => {
        const { entries, problems } = await client.list({ workspace, path, recursive });
        return [...entries, ...problems].map((one) => one.path);
      };
      expect(await list("d/deep", false)).toEqual([]);
      const tree = await Array.fromAsync(client.readTree({ workspace, path: "" }));
      const treePaths = tree.flatMap(({ entries, problems }) => [
        ...entries.map(({ entry }) => entry?.path ?? ""),
        ...problems.map(({ path }) => path),
      ]);
      expect(tree.at(-1)?.treeTrailer).toMatchObject({ files: 1n, failed: 1n });
      const seen = ["d", "d/deep", "d/seen", "odd", "odd/fifo"];
      for (const paths of [await list("", true), treePaths, await manifested(kit)])
        expect([side, [...new Set(paths)].toSorted()]).toEqual([side, seen]);
      const told = await watched(
        kit,
        () => {
          writeFileSync(join(kit.dir, "d/deep/secret/more"), "secret");
          mkdirSync(join(kit.dir, "d/secret"));
          renameSync(join(kit.dir, "d/seen"), join(kit.dir, "odd/secret-not"));
          renameSync(join(kit.dir, "d/deep/secret/file"), join(kit.dir, "d/seen"));
          writeFileSync(join(kit.dir, "last"), "last");
        },
        "last",
      );
      expect(told).toContain("d/seen");
      for (const path of told) expect(path.split("/")).not.toContain("secret");
    }
  },
);
