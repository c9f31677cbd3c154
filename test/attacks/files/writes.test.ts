import { chmod, mkdir, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { digestOf, type Digest } from "../../../shared/content/digest.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { WritePrecondition, type FilesWriteResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { canMount } from "../../faults/files/tmpfs.ts";
import { errorOf, startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeWhole } from "../../support/write-whole.ts";

const patience = { timeout: 240_000 };
// As root everything may be read: a refused permission needs another user.
const asRoot = { timeout: 240_000, skip: !canMount() };
const workspace = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair(canMount() ? { uid: 65534 } : {});
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

interface Written {
  readonly path: string;
  readonly content: string;
  readonly precondition: WritePrecondition;
  readonly ifMatch?: Digest;
}

function write(written: Written): Promise<FilesWriteResponse> {
  return writeWhole(pair.client, { workspace, ...written });
}

const at = (path: string): string => join(pair.workspace.path, path);

proves(
  "files.write-race-one-winner",
  "of fifty writers with one condition one wins, and the file is the winner's",
  patience,
  async () => {
    const old = "as everybody read it";
    for (const [path, precondition, code] of [
      ["race/match", WritePrecondition.MATCH, "CONFLICT"],
      ["race/absent", WritePrecondition.ABSENT, "ALREADY_EXISTS"],
    ] as const) {
      if (precondition === WritePrecondition.MATCH) await pair.workspace.write({ [path]: old });
      const ifMatch = precondition === WritePrecondition.MATCH ? { ifMatch: digestOf(old) } : {};
      const contents = Array.from({ length: 50 }, (_, writer) => `written by ${writer}`);
      const ends = await Promise.allSettled(
        contents.map((content) => write({ path, content, precondition, ...ifMatch })),
      );
      const winners = contents.filter((_, writer) => ends[writer]?.status === "fulfilled");
      const codes = ends.flatMap((end) => (end.status === "rejected" ? [(end.reason as Fault).code] : []));
      expect([path, winners.length, codes]).toEqual([path, 1, Array.from({ length: 49 }, () => code)]);
      expect(await readFile(at(path), "utf8")).toBe(winners[0]);
    }
  },
);

proves(
  "files.write-conditions",
  "a write holds to its condition, and one that is refused changes nothing",
  patience,
  async () => {
    await pair.workspace.write({ "conditions/file": "old" });
    const file = at("conditions/file");
    await chmod(file, 0o640);
    await utimes(file, 1_600_000_000, 1_600_000_000.25);
    const before = await stat(file);
    const base = { path: "conditions/file", content: "new" };
    const { MATCH, ABSENT, ANY } = WritePrecondition;
    const other = await faultOf(write({ ...base, precondition: MATCH, ifMatch: digestOf("other") }));
    expect(other).toMatchObject({
      code: "CONFLICT",
      details: { expected: digestOf("other"), actual: digestOf("old") },
    });
    expect((await faultOf(write({ ...base, precondition: ABSENT }))).code).toBe("ALREADY_EXISTS");
    const after = await stat(file);
    expect([after.mode, after.mtimeMs, after.ctimeMs, after.ino]).toEqual([
      before.mode,
      before.mtimeMs,
      before.ctimeMs,
      before.ino,
    ]);
    expect(await readFile(file, "utf8")).toBe("old");
    await write({ ...base, precondition: MATCH, ifMatch: digestOf("old") });
    expect(await readFile(file, "utf8")).toBe("new");
    const gone = await faultOf(write({ ...base, precondition: MATCH, ifMatch: digestOf("old") }));
    expect(gone.details).toMatchObject({ expected: digestOf("old"), actual: digestOf("new") });
    await write({ ...base, content: "whatever", precondition: ANY });
    expect(await readFile(file, "utf8")).toBe("whatever");
    await write({ path: "conditions/fresh", content: "fresh", precondition: ABSENT });
    expect(await readFile(at("conditions/fresh"), "utf8")).toBe("fresh");
  },
);

proves(
  "files.kind-mismatch",
  "what is another thing than was asked for is said to be, and a missing source makes nothing",
  asRoot,
  async () => {
    await pair.workspace.write({ "kinds/folder/inner": "in", "kinds/file": "f", "kinds/locked": "l" });
    await chmod(at("kinds/locked"), 0o000);
    const read = (path: string): Promise<unknown> => Array.fromAsync(pair.client.read({ workspace, path }));
    const replace = (): Promise<unknown> =>
      write({ path: "kinds/folder", content: "x", precondition: WritePrecondition.ANY });
    const cases: readonly (readonly [() => Promise<unknown>, string, string])[] = [
      [() => read("kinds/folder"), "NOT_A_FILE", "kinds/folder"],
      [replace, "NOT_A_FILE", "kinds/folder"],
      [() => pair.client.list({ workspace, path: "kinds/file" }), "NOT_A_DIRECTORY", "kinds/file"],
      [() => read("kinds/locked"), "IO_ERROR", "kinds/locked"],
    ];
    for (const [work, code, path] of cases) {
      const fault = await faultOf(work());
      expect([fault.code, fault.message.includes(path)]).toEqual([code, true]);
      if (code === "IO_ERROR") expect(fault.details["errno"]).toBe("EACCES");
    }
    await using here = await makeTempFolder();
    await writeFile(here.join("there"), "here");
    await mkdir(here.join("empty"));
    const missing: readonly (readonly string[])[] = [
      ["get", "devbox:/app/kinds/none", here.join("got")],
      ["put", here.join("none"), "devbox:/app/kinds/put"],
      ["sync", "devbox:/app/kinds/none", here.join("synced")],
      ["sync", here.join("none"), "devbox:/app/kinds/pushed"],
    ];
    for (const [verb = "", from = "", to = ""] of missing) {
      const isPush = verb === "sync" && !from.startsWith("devbox:");
      const args = isPush ? [verb, to, from, "--push"] : [verb, from, to];
      const result = await pair.files([...args, "--json"]);
      expect([args, result.exitCode, errorOf(result).code]).toEqual([args, 4, "NOT_FOUND"]);
    }
    expect(await here.entries()).toEqual(["empty", "there"]);
    for (const path of ["kinds/put", "kinds/pushed"]) expect(await pair.workspace.has(path)).toBe(false);
  },
);
