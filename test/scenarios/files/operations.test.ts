import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { type FilesListResponse, type WriteHeader } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { errorOf, startFilesPair, type FilesPair } from "./pair.ts";

const patience = { timeout: 240_000 };
const workspace = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

type HeaderMore = Partial<Pick<WriteHeader, "precondition" | "sizeBytes" | "refuseMissingParents">>;

/** One file through the gateway's own service. */
async function write(path: string, content: string, more: HeaderMore = {}): Promise<void> {
  await writeWhole(pair.client, { workspace, path, content, ...more });
}

proves(
  "files.stat",
  "an entry is described without being read, where nothing around it may be looked at",
  patience,
  async () => {
    await using folder = await makeTempFolder();
    await mkdir(folder.join("a/b"), { recursive: true });
    await writeFile(folder.join("a/b/only.txt"), "twelve bytes");
    await writeFile(folder.join("a/b/sibling.txt"), "closed");
    await chmod(folder.join("a/b/only.txt"), 0o640);
    await utimes(folder.join("a/b/only.txt"), 1_700_000_000.25, 1_700_000_000.25);
    const { atimeMs } = await lstat(folder.join("a/b/only.txt"));
    await pair.node.json(["node", "workspace", "add", "one", folder.path, "--read", "a/b/only.txt"]);
    await expect
      .poll(async () => (await pair.files(["stat", "devbox:/one/a/b/only.txt", "--json"])).json, {
        timeout: 30_000,
      })
      .toMatchObject({
        path: "a/b/only.txt",
        kind: "file",
        sizeBytes: 12,
        mode: "0640",
        modifiedAt: "2023-11-14T22:13:20.250000Z",
      });
    expect((await lstat(folder.join("a/b/only.txt"))).atimeMs).toBe(atimeMs);
    for (const path of ["a", "a/b", "a/b/sibling.txt", ""]) {
      expect((await faultOf(pair.client.stat({ workspace: "devbox:/one", path }))).code).toBe(
        "POLICY_DENIED",
      );
    }
    expect((await faultOf(pair.client.list({ workspace: "devbox:/one", path: "a/b" }))).code).toBe(
      "POLICY_DENIED",
    );
  },
);

proves(
  "files.list-pages",
  "pages hold every entry that is there all the time once, whatever comes and goes between them",
  patience,
  async () => {
    const names = Array.from(
      { length: 4101 },
      (_, index) => `stays-${String((index * 7919) % 4101).padStart(4, "0")}`,
    );
    await mkdir(join(pair.workspace.path, "many"));
    const at = (name: string): string => join(pair.workspace.path, "many", name);
    for (const name of names) await writeFile(at(name), "");
    const listed: string[] = [];
    const sizes: number[] = [];
    let page: FilesListResponse | undefined;
    for (let round = 0; page === undefined || page.nextCursor !== ""; round += 1) {
      page = await pair.client.list({ workspace, path: "many", limit: 1000, cursor: page?.nextCursor ?? "" });
      listed.push(...page.entries.map((entry) => entry.path));
      sizes.push(page.entries.length);
      for (let index = 0; index < 500; index += 1) {
        // Some before and some behind the page that was just read; those of the round before go.
        await writeFile(at(`${index % 2 === 0 ? "a" : "z"}-comes-${round}-${index}`), "");
        await rm(at(`${index % 2 === 0 ? "a" : "z"}-comes-${round - 1}-${index}`), { force: true });
      }
    }
    const stayed = listed.filter((path) => path.startsWith("many/stays-"));
    expect(stayed).toEqual(names.toSorted().map((name) => `many/${name}`));
    expect(sizes.slice(0, 4)).toEqual([1000, 1000, 1000, 1000]);
    await rm(join(pair.workspace.path, "many"), { recursive: true });
  },
);

proves(
  "files.list-recursive",
  "a tree is listed up to a limit and on from its cursor, and links are not entered",
  patience,
  async () => {
    await pair.workspace.write({ "rec/a/1": "", "rec/a/2": "", "rec/b/3": "", "rec/c": "" });
    await pair.workspace.link("rec/b/up", "..");
    await pair.workspace.link("rec/a/up", ".");
    await pair.workspace.link("rec/linked", "a");
    const listed: string[] = [];
    let cursor: string | null = "";
    for (let round = 0; round < 20 && cursor !== null; round += 1) {
      const more: readonly string[] = cursor === "" ? [] : ["--cursor", cursor];
      const { json, exitCode } = await pair.files([
        "ls",
        "devbox:/app/rec",
        "--recursive",
        "--limit",
        "3",
        "--json",
        ...more,
      ]);
      const page = json as {
        readonly entries: readonly { readonly path: string }[];
        readonly nextCursor: string | null;
      };
      expect(exitCode).toBe(0);
      expect(page.entries.length).toBeLessThanOrEqual(3);
      listed.push(...page.entries.map((entry) => entry.path));
      ({ nextCursor: cursor } = page);
    }
    expect(cursor).toBeNull();
    const below = ["a", "a/1", "a/2", "a/up", "b", "b/3", "b/up", "c", "linked"];
    expect(listed).toEqual(below.map((path) => `rec/${path}`));
  },
);

proves(
  "files.make-folders",
  "folders are made one at a time, and those of a write that fails are taken away",
  patience,
  async () => {
    expect((await pair.files(["mkdir", "devbox:/app/made"])).exitCode).toBe(0);
    const again = await pair.files(["mkdir", "devbox:/app/made", "--json"]);
    expect([again.exitCode, errorOf(again).code]).toEqual([6, "ALREADY_EXISTS"]);
    await pair.workspace.write({ "a-file": "content" });
    const onFile = await pair.files(["mkdir", "devbox:/app/a-file", "--json"]);
    expect([onFile.exitCode, errorOf(onFile).code]).toEqual([6, "ALREADY_EXISTS"]);
    await write("made/x/y/z.txt", "deep");
    expect(await pair.workspace.text("made/x/y/z.txt")).toBe("deep");
    const refused = await faultOf(write("missing/parent/f", "x", { refuseMissingParents: true }));
    expect(refused.code).toBe("NOT_FOUND");
    expect(refused.message).toContain("missing");
    const failed = await faultOf(write("gone/with/it/f", "longer than said", { sizeBytes: 3n }));
    expect(failed.code).toBe("INTEGRITY_FAILURE");
    await expect.poll(() => pair.workspace.has("gone")).toBe(false);
    expect(await pair.workspace.has("missing")).toBe(false);
  },
);

proves("files.remove", "files and empty folders go, and nothing that was not meant", patience, async () => {
  await pair.workspace.write({ "rm/file": "bytes", "rm/full/inner/f": "kept", "rm/empty/": "" });
  const full = await pair.files(["rm", "devbox:/app/rm/full", "--json"]);
  expect([full.exitCode, errorOf(full).code]).toEqual([6, "NOT_EMPTY"]);
  const other = await pair.files(["rm", "devbox:/app/rm/file", "--if-match", digestOf("other"), "--json"]);
  expect([other.exitCode, errorOf(other).code]).toEqual([6, "CONFLICT"]);
  for (const args of [[], ["--recursive"]]) {
    const root = await pair.files(["rm", "devbox:/app", "--json", ...args]);
    expect([root.exitCode, errorOf(root).code]).toEqual([2, "INVALID_ARGUMENT"]);
  }
  expect(await pair.workspace.text("rm/file")).toBe("bytes");
  expect(await pair.workspace.text("rm/full/inner/f")).toBe("kept");
  expect((await pair.files(["rm", "devbox:/app/rm/file", "--if-match", digestOf("bytes")])).exitCode).toBe(0);
  expect((await pair.files(["rm", "devbox:/app/rm/empty"])).exitCode).toBe(0);
  expect((await pair.files(["rm", "devbox:/app/rm/full", "--recursive"])).exitCode).toBe(0);
  expect(await pair.workspace.has("rm")).toBe(true);
  for (const name of ["file", "empty", "full"]) expect(await pair.workspace.has(`rm/${name}`)).toBe(false);
});

proves("files.move", "entries are renamed, and what may not be stays where it was", patience, async () => {
  await pair.workspace.write({ "mv/from": "moved", "mv/taken": "stays", "mv/folder/f": "inner" });
  const { ino } = await lstat(join(pair.workspace.path, "mv/from"));
  const move = (from: string, to: string): ReturnType<FilesPair["files"]> =>
    pair.files(["mv", `devbox:/app/mv/${from}`, `devbox:/app/mv/${to}`, "--json"]);
  for (const [from, to, exitCode, code] of [
    ["from", "taken", 6, "ALREADY_EXISTS"],
    ["folder", "folder/below", 2, "INVALID_ARGUMENT"],
    ["nothing", "elsewhere", 4, "NOT_FOUND"],
  ] as const) {
    const refused = await move(from, to);
    expect([refused.exitCode, errorOf(refused).code]).toEqual([exitCode, code]);
  }
  expect(await pair.workspace.text("mv/from")).toBe("moved");
  expect(await pair.workspace.text("mv/taken")).toBe("stays");
  expect(await pair.workspace.text("mv/folder/f")).toBe("inner");
  expect(await pair.workspace.has("mv/elsewhere")).toBe(false);
  expect((await move("from", "to")).exitCode).toBe(0);
  expect((await lstat(join(pair.workspace.path, "mv/to"))).ino).toBe(ino);
  expect((await move("folder", "renamed")).exitCode).toBe(0);
  expect(await pair.workspace.text("mv/renamed/f")).toBe("inner");
  expect(await pair.workspace.has("mv/from")).toBe(false);
});

const oddNames = [
  "new\nline.txt",
  `a "quote" and a 'quote'`,
  "._leading",
  "n".repeat(255),
  "caf\u00e9",
  "cafe\u0301",
  "back\\slash",
  "co:lon",
  "smile 🙂",
  " outer space ",
];

proves(
  "files.names-exact",
  "names of every kind come and go byte for byte, and two of one name are kept apart in one folder",
  patience,
  async () => {
    await using place = await makeTempFolder();
    const tree = Object.fromEntries(oddNames.map((name, at) => [name, `content ${at}`]));
    for (const [name, content] of Object.entries(tree))
      await pair.workspace.write({ [`odd/${name}`]: content });
    const listed = (await pair.files(["ls", "devbox:/app/odd", "--json"])).json as {
      readonly entries: readonly { readonly path: string }[];
    };
    const names = listed.entries.map(({ path }) => path.slice("odd/".length));
    expect(names.toSorted()).toEqual(oddNames.toSorted());

    // One by one, and as a tree; here and back again.
    const holds = async (folder: string): Promise<void> => {
      expect((await readdir(folder)).toSorted()).toEqual(oddNames.toSorted());
      for (const [name, content] of Object.entries(tree))
        expect([name, await readFile(join(folder, name), "utf8")]).toEqual([name, content]);
    };
    const single = place.join("single");
    expect(
      (await pair.files(["get", "devbox:/app/a", "devbox:/app/b", single, "--json"])).json,
    ).toMatchObject({
      error: { code: "NOT_FOUND", hint: `mkdir -p ${single}/` },
    });
    await mkdir(single);
    const sources = oddNames.map((name) => `devbox:/app/odd/${name}`);
    // The two spellings of one word are kept apart, since a volume may take them for one.
    const [composed, decomposed] = sources.filter((source) => source.normalize("NFC").endsWith("caf\u00e9"));
    const others = sources.filter((source) => source !== composed && source !== decomposed);
    for (const given of [others, [composed ?? ""], [decomposed ?? ""]])
      expect(await pair.files(["get", ...given, single])).toMatchObject({ exitCode: 0 });
    await holds(single);
    expect((await pair.files(["get", "devbox:/app/odd", place.join("tree")])).exitCode).toBe(0);
    await holds(place.join("tree"));
    const back = join(pair.workspace.path, "back");
    expect((await pair.files(["put", place.join("tree"), "devbox:/app/back"])).exitCode).toBe(0);
    await holds(back);
    for (const name of oddNames.slice(0, 4)) {
      await rm(join(back, name));
      expect((await pair.files(["put", join(single, name), `devbox:/app/back/${name}`])).exitCode).toBe(0);
    }
    await holds(back);

    await pair.workspace.write({ "x/report.csv": "of x", "y/report.csv": "of y", "z/other.csv": "of z" });
    const [x, y, z] = ["devbox:/app/x/report.csv", "devbox:/app/y/report.csv", "devbox:/app/z/other.csv"];
    const fetch = async (...paths: readonly string[]): Promise<readonly string[]> => {
      const folder = await mkdtemp(place.join("many-"));
      const { exitCode, json } = await pair.files(["get", ...paths, folder, "--json"]);
      expect([exitCode, json]).toMatchObject([0, { failedCount: 0 }]);
      const got = (await readdir(folder)).toSorted();
      return await Promise.all(
        got.map(async (name) => `${name}: ${await readFile(join(folder, name), "utf8")}`),
      );
    };
    const both = await fetch(x, y, z);
    expect(both.map((line) => line.replace(/-[0-9a-f]{8}/, "-"))).toEqual(
      expect.arrayContaining(["other.csv: of z", "report-.csv: of x", "report-.csv: of y"]),
    );
    expect(both).toHaveLength(3);
    expect(await fetch(z, y, x)).toEqual(both);
    expect(await fetch(composed ?? "", decomposed ?? "")).toHaveLength(2);

    const some = await pair.files(["get", x, "devbox:/app/none", place.path, "--json"]);
    expect(some).toMatchObject({
      exitCode: 7,
      json: { items: [{ files: 1 }, { from: "devbox:/app/none", error: { code: "NOT_FOUND" } }] },
    });
  },
);
