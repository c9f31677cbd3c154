import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { leaveTwins } from "../../../gateway/cli/files/sync/leave-twins.ts";
import { planSync } from "../../../gateway/cli/files/sync/plan-sync.ts";
import type { SyncEntry } from "../../../gateway/cli/files/sync/sync-entry.ts";
import type { TreeEntry } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { findTwins, foldName, isTwinOn, type NameFolding } from "../../../shared/names/folded-name.ts";
import { rootPath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import type { RootHandle } from "../../../shared/root/root-handle.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const composed = "caf\u00e9";
const decomposed = "cafe\u0301";
const foldsCase: NameFolding = { case: true, form: false };
const foldsForm: NameFolding = { case: false, form: true };
const foldsBoth: NameFolding = { case: true, form: true };

async function fill(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

/** A folder whose volume is said to take some names for one: what is written to it is seen as the disk has it. */
async function openFolding(folder: string, folding: NameFolding): Promise<RootHandle> {
  const root = await openRoot(folder);
  return new Proxy(root, {
    get: (target, key) => {
      if (key === "folding") return folding;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

async function filesBelow(folder: string): Promise<Readonly<Record<string, string>>> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const read = files.map(
    async (file) => [file.slice(folder.length + 1), await readFile(file, "utf8")] as const,
  );
  return Object.fromEntries(await Promise.all(read));
}

const twins: Readonly<Record<string, string>> = {
  Foo: "upper",
  foo: "lower",
  [composed]: "composed",
  [decomposed]: "decomposed",
  [`deep/${composed}.big`]: "c".repeat(300_000),
  [`deep/${decomposed}.big`]: "d".repeat(300_000),
  "Dir/inside": "one",
  "dir/inside": "two",
  "dir/alone": "three",
};
const rest: Readonly<Record<string, string>> = {
  "between/a": "a",
  "between/b": "b",
  big: "x".repeat(300_000),
  "deep/er/file": "kept",
};

async function carry(
  folding: NameFolding,
  change: (parts: AsyncIterable<TreePart>) => AsyncIterable<TreePart> = (parts) => parts,
): Promise<{
  readonly files: Readonly<Record<string, string>>;
  readonly problems: Readonly<Record<string, unknown>>;
}> {
  await using from = await makeTempFolder();
  await using to = await makeTempFolder();
  await fill(from.path, { ...twins, ...rest });
  await using source = await openRoot(from.path);
  await using target = await openFolding(to.path, folding);
  const parts = change(packTree({ root: source, path: rootPath }));
  const stored = await storeTree(parts, { root: target, path: rootPath, precondition: "any" });
  const problems = stored.problems.map(
    ({ path, fault }) => [path, [fault.code, fault.details["reason"]]] as const,
  );
  expect(stored.failedCount).toBe(problems.length);
  return { files: await filesBelow(to.path), problems: Object.fromEntries(problems) };
}

const notPortable = ["PATH_INVALID", "not_portable"];

proves(
  "files.name-twins",
  "names that the target takes for one are told of, none is written, and the rest is",
  { timeout: 60_000 },
  async () => {
    const both = await carry(foldsBoth);
    expect(both.files).toEqual(rest);
    const entries = [...Object.keys(twins), "Dir", "dir"];
    expect(both.problems).toEqual(Object.fromEntries(entries.map((path) => [path, notPortable])));

    const byCase = await carry(foldsCase);
    const forms = Object.entries(twins).filter(([path]) => path.includes("caf"));
    expect(byCase.files).toEqual({ ...rest, ...Object.fromEntries(forms) });
    expect(Object.keys(byCase.problems).toSorted()).toEqual(
      ["Dir", "Dir/inside", "Foo", "dir", "dir/alone", "dir/inside", "foo"].toSorted(),
    );

    const byForm = await carry(foldsForm);
    const cases = Object.entries(twins).filter(([path]) => !path.includes("caf"));
    expect(byForm.files).toEqual({ ...rest, ...Object.fromEntries(cases) });
    expect(Object.keys(byForm.problems).toSorted()).toEqual(forms.map(([path]) => path).toSorted());

    // A volume that tells all of them apart gets all of them.
    const none = await carry({ case: false, form: false });
    expect(none.files).toEqual({ ...twins, ...rest });
    expect(none.problems).toEqual({});
  },
);

test("a sender that marks nothing overwrites nothing either", async () => {
  const bare = async function* (parts: AsyncIterable<TreePart>): AsyncGenerator<TreePart, void> {
    for await (const part of parts) {
      const entries = part.entries.map((entry): TreeEntry => ({
        ...entry,
        caseTwin: false,
        formTwin: false,
        twin: false,
      }));
      yield { ...part, entries };
    }
  };
  const { files, problems } = await carry(foldsBoth, bare);
  // The first that came of each is whole, and the second is named.
  expect(files).toMatchObject({ ...rest, Foo: "upper", [decomposed]: "decomposed" });
  const folded = Object.keys(files).map((path) => foldName(path));
  expect(new Set(folded).size).toBe(folded.length);
  expect(problems).toMatchObject({ foo: notPortable, [composed]: notPortable, dir: notPortable });
});

test("what is left to another stream counts for twins", async () => {
  await using from = await makeTempFolder();
  await fill(from.path, twins);
  await using root = await openRoot(from.path);
  const parts = packTree({
    root,
    path: rootPath,
    leave: (path) => path !== "Foo",
  });
  const entries: TreeEntry[] = [];
  for await (const part of parts) entries.push(...part.entries);
  expect(entries).toMatchObject([{ entry: { path: "Foo" }, caseTwin: true, formTwin: false, twin: true }]);
});

test("two names are twins by case, by form, or only by both", () => {
  expect(findTwins(["a", "b", "c"]).size).toBe(0);
  const found = findTwins(["X", "x", composed, decomposed, `${composed}.A`, `${decomposed}.a`, "alone"]);
  const kinds = [...found].map(([name, one]) => ({
    name,
    byCase: isTwinOn(one, foldsCase),
    byForm: isTwinOn(one, foldsForm),
  }));
  expect(kinds).toEqual([
    { name: "X", byCase: true, byForm: false },
    { name: "x", byCase: true, byForm: false },
    { name: composed, byCase: false, byForm: true },
    { name: decomposed, byCase: false, byForm: true },
    { name: `${composed}.A`, byCase: false, byForm: false },
    { name: `${decomposed}.a`, byCase: false, byForm: false },
  ]);
  for (const one of found.values()) expect(isTwinOn(one, foldsBoth)).toBe(true);
});

const entry = (path: string, kind: SyncEntry["kind"] = "file"): SyncEntry => ({
  path: path as WorkspacePath,
  kind,
  sizeBytes: 1,
  mode: 0o644,
  modifiedNs: 0n,
  content: kind === "file" ? `sha256:${path.length.toString(16).padStart(64, "0")}` : "",
});

const treeOf = (entries: readonly SyncEntry[]): Parameters<typeof leaveTwins>[0]["source"] => ({
  identity: "x",
  entries: new Map(entries.map((one) => [one.path, one])),
  leftOut: [],
  problems: [],
});

proves("files.name-twins", "a sync leaves both alone on either side, also one that the target has", () => {
  const source = treeOf([
    entry("Foo"),
    entry("foo"),
    entry("D", "folder"),
    entry("D/x"),
    entry("Old"),
    entry("z"),
  ]);
  const target = treeOf([entry("d", "folder"), entry("d/y"), entry("old"), entry("gone")]);
  const left = leaveTwins({ source, target }, foldsBoth);
  expect(left.source.problems.map(({ path }) => path).toSorted()).toEqual([
    "D",
    "Foo",
    "Old",
    "d",
    "foo",
    "old",
  ]);
  const plan = planSync({
    source: left.source.entries,
    target: left.target.entries,
    base: new Map(),
    unread: new Set(left.source.problems.map(({ path }) => path)),
    deletes: true,
  });
  expect(plan.changes.map(({ action, entry: { path } }) => `${action} ${path}`)).toEqual([
    "create z",
    "remove gone",
  ]);
  const apart = leaveTwins({ source, target }, { case: false, form: false });
  expect(apart.source).toBe(source);
});
