import { createHash } from "node:crypto";
import { chmod, lstat, mkdir, readdir, readFile, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { EntryKind, EntrySchema, TreeEntrySchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { parseWorkspacePath, rootPath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import type { StoredTree } from "../../../shared/tree/store-tree-options.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";
import { createTreeTally } from "../../../shared/tree/tree-tally.ts";
import { faultOf } from "../../support/fault-of.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

/** Every entry below a folder: what it is, its mode, and its content or target. */
async function look(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  const lines = found.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    const { mode, mtimeNs } = await lstat(path, { bigint: true });
    const shown = `${path.slice(folder.length + 1)} ${(mode & 0o777n).toString(8)}`;
    if (!entry.isFile()) return shown;
    const digest = createHash("sha256")
      .update(await readFile(path))
      .digest("hex");
    return `${shown} ${digest} ${mtimeNs / 1000n}`;
  });
  return (await Promise.all(lines)).toSorted();
}

async function collect(folder: string): Promise<TreePart[]> {
  await using root = await openRoot(folder);
  return await Array.fromAsync(packTree({ root, path: rootPath }));
}

async function* replay(parts: readonly TreePart[]): AsyncGenerator<TreePart, void> {
  yield* parts;
}

async function store(parts: readonly TreePart[], folder: string, strict = false): Promise<StoredTree> {
  await using root = await openRoot(folder);
  return await storeTree(replay(parts), { root, path: rootPath, precondition: "any", strict });
}

async function fill(folder: TempFolder): Promise<void> {
  await mkdir(folder.join("deep/er/still"), { recursive: true });
  await mkdir(folder.join("empty"));
  for (let index = 0; index < 300; index += 1) {
    await writeFile(folder.join(`deep/er/file-${index}`), `content of ${index}\n`.repeat(index));
  }
  await writeFile(folder.join(".hidden"), "");
  await writeFile(folder.join("big"), Buffer.alloc(3_000_001, "big"));
  await writeFile(folder.join("edge"), Buffer.alloc(256 * 1024, "e"));
  await writeFile(folder.join("über\nline 🙂"), "named");
  await writeFile(folder.join("x".repeat(255)), "long");
  await chmod(folder.join("big"), 0o751);
  await utimes(folder.join("edge"), 1_700_000_000.123457, 1_700_000_000.123457);
}

test("a tree that is packed and stored again is the same tree", async () => {
  await using from = await makeTempFolder();
  await using to = await makeTempFolder();
  await fill(from);
  const stored = await store(await collect(from.path), to.path);
  expect(stored.failedCount).toBe(0);
  expect(await look(to.path)).toEqual(await look(from.path));
  const { files, folders, links } = stored.stored;
  expect([files, folders, links]).toEqual([305n, 4n, 0n]);
});

test("what cannot be read is named beside the rest, and ends a strict tree", async () => {
  await using from = await makeTempFolder();
  await using to = await makeTempFolder();
  await writeFile(from.join("good"), "good");
  await symlink("/etc", from.join("out"));
  await symlink("nowhere", from.join("gone"));
  const stored = await store(await collect(from.path), to.path);
  expect(stored.problems.map(({ path, fault }) => `${path} ${fault.code}`)).toEqual([
    "gone NOT_FOUND",
    "out PATH_ESCAPES",
  ]);
  expect(await to.entries()).toEqual(["good"]);
  await using root = await openRoot(from.path);
  const strict = Array.fromAsync(packTree({ root, path: rootPath, strict: true }));
  expect((await faultOf(strict)).code).toBe("NOT_FOUND");
});

function fileEntry(
  path: string,
  content = "evil",
  more: { readonly digest?: string } = {},
): TreePart["entries"][number] {
  const entry = create(EntrySchema, {
    path,
    kind: EntryKind.FILE,
    sizeBytes: BigInt(content.length),
    mode: 0o644,
    digest: digestOf(content),
    ...more,
  });
  return create(TreeEntrySchema, { entry, inlineBytes: BigInt(content.length) });
}

function treeOf(entries: TreePart["entries"]): TreePart[] {
  const tally = createTreeTally();
  for (const { entry } of entries) if (entry) tally.add(entry);
  return [
    { entries, content: Buffer.from("evil".repeat(entries.length)) },
    { entries: [], content: new Uint8Array(), treeTrailer: tally.trailer(0n) },
  ];
}

test("entries whose names lead out are refused one by one, and nothing is made outside", async () => {
  await using folder = await makeTempFolder();
  await mkdir(folder.join("target"));
  await symlink("..", folder.join("target/way-out"));
  const names = ["../x", "/x", "a/../../x", ".", "", "a\0b", "way-out/x", "a//b", "fine"];
  const { problems, failedCount } = await store(
    treeOf(names.map((name) => fileEntry(name))),
    folder.join("target"),
  );
  expect(problems.map(({ fault }) => fault.code)).toEqual([
    "PATH_INVALID",
    "PATH_INVALID",
    "PATH_INVALID",
    "PATH_INVALID",
    "PATH_INVALID",
    "PATH_INVALID",
    "SYMLINK_REFUSED",
    "PATH_INVALID",
  ]);
  expect(failedCount).toBe(8);
  expect(await folder.entries()).toEqual(["target", "target/fine", "target/way-out"]);
});

test("content that is not what its entry says is never stored", async () => {
  await using folder = await makeTempFolder();
  const { problems } = await store(
    treeOf([fileEntry("a", "evil", { digest: digestOf("good") })]),
    folder.path,
  );
  expect(problems.map(({ path, fault }) => [path, fault.code])).toEqual([["a", "INTEGRITY_FAILURE"]]);
  expect(await folder.entries()).toEqual([]);
});

test("a tree that is cut off anywhere is an error, and what stands under its name is whole", async () => {
  await using from = await makeTempFolder();
  await fill(from);
  const parts = await collect(from.path);
  const whole = new Map((await look(from.path)).map((line) => [line.split(" ")[0], line]));
  for (let length = 0; length < parts.length; length += 1) {
    await using to = await makeTempFolder();
    expect((await faultOf(store(parts.slice(0, length), to.path))).code).toBe("INTEGRITY_FAILURE");
    for (const line of await look(to.path)) expect(line).toBe(whole.get(line.split(" ")[0]));
  }
});

test("a closing message that says something else is refused", async () => {
  await using folder = await makeTempFolder();
  const [first, last] = treeOf([fileEntry("a")]);
  if (!first || !last?.treeTrailer) throw new Error("two parts were expected");
  const wrong = { ...last, treeTrailer: { ...last.treeTrailer, files: 2n } };
  expect((await faultOf(store([first, wrong], folder.path))).code).toBe("INTEGRITY_FAILURE");
});

test("folders get their times once all that comes into them has come", async () => {
  await using from = await makeTempFolder();
  await using to = await makeTempFolder();
  // A name that sorts between a folder and what lies in it, large files beside small ones, and a link.
  await mkdir(from.join("a/b/c"), { recursive: true });
  await mkdir(from.join("a-b"), { mode: 0o775 });
  await chmod(from.join("a-b"), 0o775);
  await writeFile(from.join("a/b/c/small"), "small");
  await writeFile(from.join("a/b/large"), Buffer.alloc(700_000, "l"));
  await symlink("b", from.join("a/link"));
  await writeFile(from.join("z"), "behind all of them");
  const folders = ["a", "a-b", "a/b", "a/b/c"];
  for (const [index, path] of folders.entries()) {
    await utimes(from.join(path), 1_500_000_000 + index, 1_500_000_000.25 + index);
  }
  const parts = await collect(from.path);
  for (const isUnseen of [false, true]) {
    await using root = await openRoot(to.path);
    const path = parseWorkspacePath(`top-${isUnseen}`);
    const top = { mode: 0o770, mtimeNs: 1_400_000_000_000_001_000n };
    await storeTree(replay(parts), { root, path, precondition: "any", top, isUnseen });
    const state = await lstat(to.join(path), { bigint: true });
    expect([state.mode & 0o777n, state.mtimeNs / 1000n]).toEqual([0o770n, 1_400_000_000_000_001n]);
    for (const folder of folders) {
      const [was, is] = [await lstat(from.join(folder)), await lstat(to.join(path, folder))];
      expect([folder, is.mtimeMs, is.mode & 0o777]).toEqual([folder, was.mtimeMs, was.mode & 0o777]);
    }
  }
});

test("what stands there with the very content is as good as stored, anything else is refused for itself", async () => {
  await using from = await makeTempFolder();
  await using to = await makeTempFolder();
  await fill(from);
  const parts = await collect(from.path);
  const first = await store(parts, to.path);
  const again = async (): Promise<StoredTree> => {
    await using root = await openRoot(to.path);
    return await storeTree(replay(parts), { root, path: rootPath, precondition: "absent_or_equal" });
  };
  const before = await look(to.path);
  const same = await again();
  expect([same.failedCount, same.unchangedCount, same.stored]).toEqual([0, 305, first.stored]);
  expect(await look(to.path)).toEqual(before);

  await writeFile(to.join("deep/er/file-7"), "mine");
  await writeFile(to.join("big"), Buffer.alloc(3_000_001, "gib"));
  await writeFile(to.join("edge"), "shorter");
  const other = await again();
  expect(other.problems.map(({ path, fault }) => `${path} ${fault.code}`).toSorted()).toEqual([
    "big ALREADY_EXISTS",
    "deep/er/file-7 ALREADY_EXISTS",
    "edge ALREADY_EXISTS",
  ]);
  expect(other.problems[0]?.fault.hint).toContain("--if-match any");
  expect(other.unchangedCount).toBe(302);
  expect(await readFile(to.join("deep/er/file-7"), "utf8")).toBe("mine");
  expect(await readFile(to.join("edge"), "utf8")).toBe("shorter");
});

test("a part of a folder is packed with paths of its own", async () => {
  await using from = await makeTempFolder();
  await fill(from);
  await using root = await openRoot(from.path);
  const parts = await Array.fromAsync(packTree({ root, path: parseWorkspacePath("deep/er") }));
  const paths = parts.flatMap(({ entries }) => entries.map(({ entry }) => entry?.path));
  expect(paths).toHaveLength(301);
  expect(paths).toContain("still");
});
