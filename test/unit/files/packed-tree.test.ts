import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { createTreeFilter } from "../../../gateway/files/tree-filter.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { rootPath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import { packTreeParts } from "../../../shared/tree/pack-parts.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import type { StoredTree } from "../../../shared/tree/store-tree-options.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";
import { faultOf } from "../../support/fault-of.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

async function fill(folder: string, files: Readonly<Record<string, Buffer>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}

const texts: Readonly<Record<string, Buffer>> = Object.fromEntries(
  Array.from({ length: 200 }, (_, at) => [
    `text/${at}.md`,
    Buffer.from(`line ${at} of a text\n`.repeat(100)),
  ]),
);
const noise: Readonly<Record<string, Buffer>> = {
  "noise/a": randomBytes(200_000),
  "noise/b": randomBytes(3_000_000),
};
const large: Readonly<Record<string, Buffer>> = {
  "large.log": Buffer.from("a line of a log\n".repeat(150_000)),
};

async function packed(files: Readonly<Record<string, Buffer>>): Promise<readonly TreePart[]> {
  await using from = await makeTempFolder();
  await fill(from.path, files);
  await using root = await openRoot(from.path);
  const parts: TreePart[] = [];
  for await (const part of packTreeParts(packTree({ root, path: rootPath })))
    parts.push({ ...part, content: Buffer.from(part.content) });
  return parts;
}

async function* replay(parts: readonly TreePart[]): AsyncGenerator<TreePart, void> {
  yield* parts;
}

async function store(folder: string, parts: AsyncIterable<TreePart>): Promise<StoredTree> {
  await using root = await openRoot(folder);
  return await storeTree(parts, { root, path: rootPath, precondition: "absent" });
}

async function filesBelow(folder: string): Promise<Readonly<Record<string, Buffer>>> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(
    await Promise.all(
      files.map(async (file) => [file.slice(folder.length + 1), await readFile(file)] as const),
    ),
  );
}

const sizeOf = (parts: readonly TreePart[]): number =>
  parts.reduce((sum, { content }) => sum + content.byteLength, 0);

test("a tree of texts travels in a small part of its bytes, noise as it is, and both arrive as they were", async () => {
  const files = { ...texts, ...noise, ...large };
  const parts = await packed(files);
  await using to = await makeTempFolder();
  const { failedCount } = await store(to.path, replay(parts));
  expect(failedCount).toBe(0);
  expect(await filesBelow(to.path)).toEqual(files);
  const [ofTexts, ofLarge, ofNoise] = [await packed(texts), await packed(large), await packed(noise)];
  const bytesOf = (all: Readonly<Record<string, Buffer>>): number =>
    Object.values(all).reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(sizeOf(ofTexts)).toBeLessThan(bytesOf(texts) / 5);
  expect(sizeOf(ofLarge)).toBeLessThan(bytesOf(large) / 5);
  expect(sizeOf(ofNoise)).toBe(bytesOf(noise));
  expect(ofNoise.every(({ packedBytes }) => packedBytes === 0)).toBe(true);
});

test("what policy leaves out of a packed message is not in what is passed on", async () => {
  const parts = await packed(texts);
  const filter = createTreeFilter({
    denial: (path) => (path === "text/7.md" ? new Fault("POLICY_DENIED", "closed") : undefined),
    onDenied: () => undefined,
  });
  const passed: TreePart[] = [];
  for (const part of parts) passed.push(await filter.pass(part));
  await using to = await makeTempFolder();
  await store(to.path, replay(passed));
  const { "text/7.md": _, ...others } = texts;
  expect(await filesBelow(to.path)).toEqual(others);
  expect(passed.some(({ content }) => Buffer.from(content).includes("line 7 of a text"))).toBe(false);
});

test("packed content that is none, or of another length, ends the tree", async () => {
  const parts = await packed(texts);
  const changed = (change: (part: TreePart) => Partial<TreePart>): readonly TreePart[] =>
    parts.map((part) => ((part.packedBytes ?? 0) > 0 ? { ...part, ...change(part) } : part));
  for (const wrong of [
    changed(({ content }) => ({ content: Buffer.from(content).fill(0, 0, 8) })),
    changed(({ packedBytes = 0 }) => ({ packedBytes: packedBytes + 1 })),
    changed(({ packedBytes = 0 }) => ({ packedBytes: packedBytes - 1 })),
    changed(() => ({ packedBytes: 1_048_577 })),
  ]) {
    await using to = await makeTempFolder();
    expect((await faultOf(store(to.path, replay(wrong)))).code).toBe("INTEGRITY_FAILURE");
  }
});
