import { execFileSync } from "node:child_process";
import { appendFileSync, linkSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { foundIn, openTempRoot, p, readAll, summary, walkAll } from "./temp-root.ts";

const awkward = [
  "a\nb",
  'say "hi"',
  "._x",
  "e\u0301",
  "\u00e9",
  "😀",
  "back\\slash",
  "co:lon",
  "x".repeat(255),
  " a ",
  "a.",
  "\ufffd",
];

describe("stat", () => {
  test("gives kind, size, mode and time of the root, a folder and a file", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "sub"));
      writeFileSync(join(dir, "sub/file"), "12345", { mode: 0o640 });
    });
    expect(await temp.root.stat(p(""))).toMatchObject({ path: "", kind: "folder", sizeBytes: 0 });
    expect(await temp.root.stat(p("sub"))).toMatchObject({ path: "sub", kind: "folder" });
    const file = await temp.root.stat(p("sub/file"));
    expect(file).toMatchObject({ canonicalPath: "sub/file", kind: "file" });
    expect(file).toMatchObject({ sizeBytes: 5, mode: 0o640, links: 1 });
    expect(Math.abs(Number(file.mtimeNs / 1_000_000n) - Date.now())).toBeLessThan(60_000);
  });

  test("names what is missing, and a file where a folder is needed", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), ""));
    expect(await faultOf(temp.root.stat(p("none/x")))).toMatchObject({
      code: "NOT_FOUND",
      details: { path: "none" },
    });
    expect(await faultOf(temp.root.stat(p("file/x")))).toMatchObject({
      code: "NOT_A_DIRECTORY",
      details: { path: "file" },
    });
    expect(await faultOf(temp.root.list(p("file")))).toMatchObject({ code: "NOT_A_DIRECTORY" });
    expect(await faultOf(temp.root.openFile(p("")))).toMatchObject({ code: "NOT_A_FILE" });
  });
});

describe("names", () => {
  test("of any kind are listed, read and walked byte for byte", async () => {
    await using temp = await openTempRoot((dir) => {
      for (const name of awkward) writeFileSync(join(dir, name), `content of ${name}`);
    });
    const expected = awkward.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const listing = await temp.root.list(p(""));
    expect(listing.entries.map((entry) => entry.path)).toEqual(expected);
    expect(listing.problems).toEqual([]);
    expect(summary(await walkAll(temp.root, ""))).toEqual(expected);
    for (const name of awkward) expect(await readAll(temp.root, name)).toBe(`content of ${name}`);
  });

  test("that are no UTF-8 are problems, and the rest is served", async () => {
    await using temp = await openTempRoot((dir) => {
      writeFileSync(Buffer.concat([Buffer.from(`${dir}/`), Buffer.from([0x62, 0xff])]), "");
      writeFileSync(join(dir, "a"), "");
      writeFileSync(join(dir, "c"), "");
    });
    const listing = await temp.root.list(p(""));
    expect(listing.entries.map((entry) => entry.path)).toEqual(["a", "c"]);
    expect(listing.problems).toMatchObject([{ path: "b\\xff", fault: { code: "PATH_INVALID" } }]);
    expect(summary(await walkAll(temp.root, ""))).toEqual(["a", "b\\xff: PATH_INVALID", "c"]);
  });
});

describe("a listing", () => {
  test("comes in pages that continue behind the last name", async () => {
    const names = Array.from({ length: 250 }, (_, index) => `n${String(index).padStart(3, "0")}`);
    await using temp = await openTempRoot((dir) => {
      for (const name of names) writeFileSync(join(dir, name), "");
    });
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const page = await temp.root.list(p(""), { limit: 100, ...(after === undefined ? {} : { after }) });
      seen.push(...page.entries.map((entry) => entry.path));
      after = page.next;
      if (after !== undefined) {
        writeFileSync(join(temp.dir, `a${seen.length}`), "");
        writeFileSync(join(temp.dir, `z${seen.length}`), "");
      }
    } while (after !== undefined);
    expect(seen.filter((name) => name.startsWith("n"))).toEqual(names);
  });

  test("leaves out what is hidden and what is being written", async () => {
    await using temp = await openTempRoot((dir) => {
      writeFileSync(join(dir, "seen"), "");
      writeFileSync(join(dir, ".env"), "");
    });
    await using staged = await temp.root.stageWrite(p("new"));
    await staged.write(Buffer.from("half"));
    const hide = (path: string): boolean => path === ".env";
    expect((await temp.root.list(p(""), { hide })).entries.map((entry) => entry.path)).toEqual(["seen"]);
    expect(summary(await walkAll(temp.root, "", { hide }))).toEqual(["seen"]);
  });
});

describe("links", () => {
  const fill = (dir: string, outside: string): void => {
    mkdirSync(join(dir, "real/deep"), { recursive: true });
    writeFileSync(join(dir, "real/file"), "inside");
    symlinkSync("real", join(dir, "folder-link"));
    symlinkSync("real/file", join(dir, "file-link"));
    symlinkSync("../file", join(dir, "real/deep/up"));
    symlinkSync(join(dir, "real"), join(dir, "absolute-inside"));
    symlinkSync(outside, join(dir, "absolute"));
    symlinkSync("../outside/secret", join(dir, "escaping"));
    symlinkSync("../../outside", join(dir, "real/escaping-folder"));
    symlinkSync("nowhere", join(dir, "dangling"));
    symlinkSync("loop-b", join(dir, "loop-a"));
    symlinkSync("loop-a", join(dir, "loop-b"));
  };

  test("are refused in any component where none is followed", async () => {
    await using temp = await openTempRoot(fill);
    for (const path of [
      "file-link",
      "folder-link/file",
      "escaping",
      "absolute/secret",
      "dangling",
      "loop-a",
    ]) {
      const fault = await faultOf(temp.root.openFile(p(path)));
      expect(fault).toMatchObject({ code: "SYMLINK_REFUSED", details: { path: path.split("/")[0] } });
      expect(fault.hint).toContain("followSymlinks");
      expect(JSON.stringify([fault.message, fault.details])).not.toContain(temp.outside);
    }
    expect(await faultOf(temp.root.list(p("folder-link")))).toMatchObject({ code: "SYMLINK_REFUSED" });
    expect(await faultOf(temp.root.stageWrite(p("folder-link/new")))).toMatchObject({
      code: "SYMLINK_REFUSED",
    });
    expect(await faultOf(temp.root.stageWrite(p("file-link")))).toMatchObject({ code: "SYMLINK_REFUSED" });
  });

  test("are followed where that is allowed, as long as they stay inside", async () => {
    await using temp = await openTempRoot(fill, { followSymlinks: true });
    for (const path of ["file-link", "folder-link/file", "real/deep/up", "absolute-inside/file"]) {
      await using file = await temp.root.openFile(p(path));
      expect(file.canonicalPath).toBe("real/file");
      expect(await readAll(temp.root, path)).toBe("inside");
    }
    expect((await temp.root.list(p("folder-link"))).canonicalPath).toBe("real");
    for (const path of [
      "escaping",
      "absolute/secret",
      "real/escaping-folder/secret",
      "folder-link/escaping-folder/secret",
    ]) {
      expect(await faultOf(temp.root.openFile(p(path)))).toMatchObject({ code: "PATH_ESCAPES" });
    }
    expect(await faultOf(temp.root.openFile(p("dangling")))).toMatchObject({ code: "NOT_FOUND" });
    expect(await faultOf(temp.root.openFile(p("loop-a")))).toMatchObject({
      code: "SYMLINK_REFUSED",
      details: { reason: "loop" },
    });
    expect(await faultOf(temp.root.stageWrite(p("file-link")))).toMatchObject({ code: "SYMLINK_REFUSED" });
  });

  test("are shown and never entered by a walk, and those that lead out are problems", async () => {
    await using temp = await openTempRoot(fill);
    expect(summary(await walkAll(temp.root, ""))).toEqual([
      "absolute: PATH_ESCAPES",
      "absolute-inside: PATH_ESCAPES",
      "dangling: NOT_FOUND",
      "escaping: PATH_ESCAPES",
      "file-link",
      "folder-link",
      "loop-a: SYMLINK_REFUSED",
      "loop-b: SYMLINK_REFUSED",
      "real",
      "real/deep",
      "real/deep/up",
      "real/escaping-folder: PATH_ESCAPES",
      "real/file",
    ]);
    const items = await walkAll(temp.root, "real/deep");
    expect(summary(items)).toEqual(["real/deep/up: PATH_ESCAPES"]);
    const listing = await temp.root.list(p(""));
    expect(listing.entries.find((entry) => entry.path === "file-link")).toMatchObject({
      kind: "link",
      linkTarget: "real/file",
    });
    expect(listing.entries.find((entry) => entry.path === "absolute")?.linkTarget).toBeUndefined();
  });

  test("two that point to their own parent do not keep a walk from its end", async () => {
    await using temp = await openTempRoot((dir) => {
      symlinkSync("..", join(dir, "up"));
      mkdirSync(join(dir, "sub"));
      symlinkSync("..", join(dir, "sub/one"));
      symlinkSync("..", join(dir, "sub/two"));
    });
    expect(summary(await walkAll(temp.root, ""))).toEqual(["sub", "sub/one", "sub/two", "up: PATH_ESCAPES"]);
  });
});

describe("what is no plain file", () => {
  test("is refused with its code, at once", async () => {
    await using temp = await openTempRoot((dir, outside) => {
      execFileSync("mkfifo", [join(dir, "fifo")]);
      linkSync(join(outside, "secret"), join(dir, "hard"));
      mkdirSync(join(dir, "folder"));
    });
    const started = performance.now();
    expect(await faultOf(temp.root.openFile(p("fifo")))).toMatchObject({ code: "UNSUPPORTED_FILE_TYPE" });
    expect(await faultOf(temp.root.openFile(p("hard")))).toMatchObject({ code: "HARDLINK_REFUSED" });
    expect(await faultOf(temp.root.openFile(p("folder")))).toMatchObject({ code: "NOT_A_FILE" });
    expect(await faultOf(temp.root.stageWrite(p("fifo")))).toMatchObject({ code: "UNSUPPORTED_FILE_TYPE" });
    expect(await faultOf(temp.root.stageWrite(p("hard")))).toMatchObject({ code: "HARDLINK_REFUSED" });
    expect(performance.now() - started).toBeLessThan(1000);
    expect(summary(await walkAll(temp.root, ""))).toEqual([
      "fifo: UNSUPPORTED_FILE_TYPE",
      "folder",
      "hard: HARDLINK_REFUSED",
    ]);
    expect(summary(await walkAll(temp.root, "", { contentUpToBytes: 1000 }))).toContain(
      "hard: HARDLINK_REFUSED",
    );
  });

  test("with more than one name is served where that is allowed", async () => {
    await using temp = await openTempRoot(
      (dir, outside) => linkSync(join(outside, "secret"), join(dir, "hard")),
      {
        allowHardLinks: true,
      },
    );
    expect(await readAll(temp.root, "hard")).toBe("outside secret");
  });
});

describe("an open file", () => {
  test("is the one that was opened, whatever its name leads to later", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "first"));
    await using file = await temp.root.openFile(p("file"));
    writeFileSync(join(temp.dir, "other"), "second");
    renameSync(join(temp.dir, "other"), join(temp.dir, "file"));
    const buffer = Buffer.alloc(10);
    expect(buffer.toString("utf8", 0, await file.read(buffer, 0))).toBe("first");
    expect(file.hasChanged()).toBe(false);
  });

  test("tells when its content changed", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "first"));
    await using file = await temp.root.openFile(p("file"));
    expect(file.hasChanged()).toBe(false);
    appendFileSync(join(temp.dir, "file"), "more");
    expect(file.hasChanged()).toBe(true);
  });

  test("over the limit is refused before its first byte, and one that grows at that byte", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "12345"));
    expect(await faultOf(temp.root.openFile(p("file"), { maxBytes: 4 }))).toMatchObject({
      code: "TOO_LARGE",
      details: { limit: 4, actual: 5 },
    });
    await using file = await temp.root.openFile(p("file"), { maxBytes: 5 });
    appendFileSync(join(temp.dir, "file"), "6");
    const buffer = Buffer.alloc(16);
    expect(await faultOf(file.read(buffer, 0))).toMatchObject({
      code: "TOO_LARGE",
      details: { limit: 5, actual: 6 },
    });
  });

  test("that is small is read at once", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "12345"));
    const { entry, content } = temp.root.readSmall(p("file"), { maxBytes: 5 });
    expect(content.toString()).toBe("12345");
    expect(entry).toMatchObject({ kind: "file", sizeBytes: 5 });
    expect(await faultOf(() => temp.root.readSmall(p("file"), { maxBytes: 4 }))).toMatchObject({
      code: "TOO_LARGE",
    });
  });

  test("asks the check with the canonical path before it is opened", async () => {
    await using temp = await openTempRoot(
      (dir) => {
        writeFileSync(join(dir, "file"), "");
        symlinkSync("file", join(dir, "link"));
      },
      { followSymlinks: true },
    );
    const asked: string[] = [];
    await using file = await temp.root.openFile(p("link"), { check: (path) => void asked.push(path) });
    expect(asked).toEqual(["file"]);
    expect(file.entry.path).toBe("link");
  });
});

describe("a walk", () => {
  test("is in the order of the whole paths' bytes and carries small contents", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "a"));
      for (const name of ["a/x", "a-b", "a.txt", "b"]) writeFileSync(join(dir, name), name);
      writeFileSync(join(dir, "large"), "x".repeat(2000));
    });
    const items = await walkAll(temp.root, "", { contentUpToBytes: 1000 });
    expect(summary(items)).toEqual(["a", "a-b", "a.txt", "a/x", "b", "large"]);
    const contents = items.map((item) => ("content" in item ? String(item.content) : undefined));
    expect(contents).toEqual([undefined, "a-b", "a.txt", "a/x", "b", undefined]);
  });

  test("goes on behind the path that an earlier one ended with, wherever that was", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "a/b/c"), { recursive: true });
      for (const name of ["a/x", "a/b/y", "a/b/c/z", "a-b", "a0", "b"]) writeFileSync(join(dir, name), name);
    });
    const all = summary(await walkAll(temp.root, ""));
    expect(all).toEqual(["a", "a-b", "a/b", "a/b/c", "a/b/c/z", "a/b/y", "a/x", "a0", "b"]);
    for (const [index, path] of all.entries()) {
      expect(summary(await walkAll(temp.root, "", { after: p(path) }))).toEqual(all.slice(index + 1));
    }
  });

  test("has limits of entries and depth", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "1/2/3"), { recursive: true });
      writeFileSync(join(dir, "1/2/3/file"), "");
    });
    expect(await faultOf(walkAll(temp.root, "", { maxEntries: 3 }))).toMatchObject({
      code: "LIMIT_REACHED",
      details: { limit: 3, actual: 4 },
    });
    expect(await walkAll(temp.root, "", { maxEntries: 4 })).toHaveLength(4);
    expect(await faultOf(walkAll(temp.root, "", { maxDepth: 3 }))).toMatchObject({
      code: "LIMIT_REACHED",
      details: { limit: 3 },
    });
    expect(await walkAll(temp.root, "", { maxDepth: 4 })).toHaveLength(4);
  });

  test("of many entries comes whole, in turns, and ends when it is left or aborted", async () => {
    await using temp = await openTempRoot((dir) => {
      for (let folder = 0; folder < 40; folder += 1) {
        mkdirSync(join(dir, `f${folder}`));
        for (let file = 0; file < 100; file += 1) writeFileSync(join(dir, `f${folder}/${file}`), "x");
      }
    });
    expect(await walkAll(temp.root, "", { contentUpToBytes: 64 * 1024 })).toHaveLength(4040);
    for await (const batch of temp.root.walk(p(""))) {
      expect(batch.length).toBeGreaterThan(0);
      break;
    }
    const controller = new AbortController();
    controller.abort(new Error("enough"));
    await expect(walkAll(temp.root, "", { signal: controller.signal, contentUpToBytes: 1 })).rejects.toThrow(
      "enough",
    );
  });
});

test("a root is the folder that stands at its path, and what ran in the one before ends", async () => {
  await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "old"), ""));
  const { identity } = temp.root;
  await using staged = await temp.root.stageWrite(p("half"));
  renameSync(temp.dir, join(temp.outside, "moved"));
  expect(await faultOf(temp.root.stat(p("old")))).toMatchObject({ code: "NOT_FOUND" });
  mkdirSync(temp.dir);
  writeFileSync(join(temp.dir, "new"), "");
  expect((await temp.root.list(p(""))).entries.map((entry) => entry.path)).toEqual(["new"]);
  expect(temp.root.identity).not.toEqual(identity);
  expect(await faultOf(staged.commit({ precondition: { kind: "any" } }))).toMatchObject({
    code: "PATH_CHANGED",
  });
  expect(foundIn(join(temp.outside, "moved"))).toEqual(["old"]);
});

test("a closed root does nothing more", async () => {
  const temp = await openTempRoot();
  await temp[Symbol.asyncDispose]();
  await temp[Symbol.asyncDispose]();
  await expect(temp.root.stat(p(""))).rejects.toMatchObject({ code: "CANCELLED" });
});
