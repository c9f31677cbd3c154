import { existsSync } from "node:fs";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("a folder is empty at first and gone at the end, with what is in it", async () => {
  let path = "";
  {
    await using folder = await makeTempFolder();
    ({ path } = folder);
    expect(await folder.entries()).toEqual([]);
    await mkdir(folder.join("a", "b"), { recursive: true });
    await writeFile(folder.join("a", "b", "c.txt"), "c");
    expect(await folder.entries()).toEqual(["a", "a/b", "a/b/c.txt"]);
  }
  expect(existsSync(path)).toBe(false);
});

test("strays are named, after the folder is removed", async () => {
  const folder = await makeTempFolder({ mayStay: (path) => path.endsWith(".txt") });
  await writeFile(folder.join("kept.txt"), "");
  await writeFile(folder.join(".part-1"), "");
  await expect(folder[Symbol.asyncDispose]()).rejects.toThrow("left behind in a temporary folder: .part-1");
  expect(existsSync(folder.path)).toBe(false);
});

test.runIf(process.getuid?.() === 0)("a folder can belong to somebody else", async () => {
  await using folder = await makeTempFolder({ ownerUid: 65_534 });
  const { uid, mode } = await stat(folder.path);
  expect([uid, mode & 0o777]).toEqual([65_534, 0o755]);
});
