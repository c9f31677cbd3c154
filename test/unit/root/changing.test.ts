import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { faultOf } from "../../support/fault-of.ts";
import { isOpenedWith, openTempRoot, p } from "./temp-root.ts";

describe("removing", () => {
  test("takes a file, an empty folder, and a full one only when that was asked for", async () => {
    await using temp = await openTempRoot((dir) => {
      writeFileSync(join(dir, "file"), "");
      mkdirSync(join(dir, "empty"));
      mkdirSync(join(dir, "full/deep/er"), { recursive: true });
      writeFileSync(join(dir, "full/deep/x"), "");
    });
    expect(await temp.root.remove(p("file"))).toBe(1);
    expect(await temp.root.remove(p("empty"))).toBe(1);
    expect(await faultOf(temp.root.remove(p("full")))).toMatchObject({ code: "NOT_EMPTY" });
    expect(readdirSync(join(temp.dir, "full/deep")).toSorted()).toEqual(["er", "x"]);
    expect(await temp.root.remove(p("full"), { recursive: true })).toBe(4);
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  test("refuses the root, what is missing, and a file with another digest", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "content"));
    expect(await faultOf(temp.root.remove(p("")))).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await faultOf(temp.root.remove(p("none")))).toMatchObject({ code: "NOT_FOUND" });
    expect(await faultOf(temp.root.remove(p("file"), { ifMatch: digestOf("other") }))).toMatchObject({
      code: "CONFLICT",
      details: { actual: digestOf("content") },
    });
    expect(await faultOf(temp.root.remove(p("none"), { ifMatch: digestOf("other") }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await temp.root.remove(p("file"), { ifMatch: digestOf("content") })).toBe(1);
  });

  test("takes links and second names themselves, never what they lead to", async () => {
    await using temp = await openTempRoot((dir, outside) => {
      mkdirSync(join(dir, "tree"));
      mkdirSync(join(outside, "kept"));
      symlinkSync("../../outside", join(dir, "tree/link"));
      linkSync(join(outside, "secret"), join(dir, "tree/hard"));
      symlinkSync("../outside/kept", join(dir, "top-link"));
      writeFileSync(Buffer.concat([Buffer.from(`${dir}/tree/`), Buffer.from([0xff, 0xfe])]), "");
    });
    expect(await temp.root.remove(p("top-link"), { recursive: true })).toBe(1);
    expect(await temp.root.remove(p("tree"), { recursive: true })).toBe(4);
    expect(readdirSync(temp.dir)).toEqual([]);
    expect(readdirSync(temp.outside).toSorted()).toEqual(["kept", "secret"]);
  });

  test("of a wide and deep tree goes on over many turns", async () => {
    await using temp = await openTempRoot((dir) => {
      let folder = join(dir, "tree");
      for (let depth = 0; depth < 30; depth += 1) {
        mkdirSync(folder);
        for (let file = 0; file < 200; file += 1) writeFileSync(join(folder, `f${file}`), "");
        folder = join(folder, "d");
      }
    });
    expect(await temp.root.remove(p("tree"), { recursive: true })).toBe(30 * 201);
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  test("is stopped by the question for each entry", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "tree/sub"), { recursive: true });
      writeFileSync(join(dir, "tree/sub/keep"), "");
    });
    const asked: string[] = [];
    const mayRemove = (path: string): void => {
      asked.push(path);
      throw new Error("no");
    };
    await expect(temp.root.remove(p("tree"), { recursive: true, mayRemove })).rejects.toThrow("no");
    expect(asked).toEqual(["tree/sub/keep"]);
  });

  test("leaves alone a folder in which a file is just being written", async () => {
    await using temp = await openTempRoot();
    await using staged = await temp.root.stageWrite(p("tree/file"));
    await staged.write(Buffer.from("x"));
    expect(await faultOf(temp.root.remove(p("tree"), { recursive: true }))).toMatchObject({
      code: "CONFLICT",
    });
    await staged.commit({ precondition: { kind: "any" } });
    expect(readFileSync(join(temp.dir, "tree/file"), "utf8")).toBe("x");
  });
});

describe("moving", () => {
  const fill = (dir: string): void => {
    mkdirSync(join(dir, "folder/sub"), { recursive: true });
    writeFileSync(join(dir, "folder/sub/x"), "x");
    writeFileSync(join(dir, "file"), "content");
    writeFileSync(join(dir, "other"), "other");
    symlinkSync("file", join(dir, "link"));
  };

  test("renames files, folders and links", async () => {
    await using temp = await openTempRoot(fill);
    expect(await temp.root.move(p("file"), p("folder/file"))).toMatchObject({
      path: "folder/file",
      kind: "file",
      links: 1,
    });
    expect(await temp.root.move(p("folder/sub"), p("sub"))).toMatchObject({ kind: "folder" });
    expect(await temp.root.move(p("link"), p("sub/link"))).toMatchObject({ kind: "link" });
    expect(readdirSync(temp.dir).toSorted()).toEqual(["folder", "other", "sub"]);
    expect(readdirSync(join(temp.dir, "sub")).toSorted()).toEqual(["link", "x"]);
    expect(readFileSync(join(temp.dir, "folder/file"), "utf8")).toBe("content");
  });

  test("refuses an existing target, itself, the root and a missing source, and changes nothing", async () => {
    await using temp = await openTempRoot(fill);
    const code = async (from: string, to: string): Promise<string> =>
      (await faultOf(temp.root.move(p(from), p(to)))).code;
    expect(await code("file", "other")).toBe("ALREADY_EXISTS");
    expect(await code("file", "folder")).toBe("ALREADY_EXISTS");
    expect(await code("folder", "other")).toBe("ALREADY_EXISTS");
    expect(await code("file", "file")).toBe("ALREADY_EXISTS");
    expect(await code("folder", "folder/sub/in")).toBe("INVALID_ARGUMENT");
    expect(await code("", "x")).toBe("INVALID_ARGUMENT");
    expect(await code("none", "x")).toBe("NOT_FOUND");
    expect(await code("file", "none/x")).toBe("NOT_FOUND");
    expect(readdirSync(temp.dir).toSorted()).toEqual(["file", "folder", "link", "other"]);
    expect(readFileSync(join(temp.dir, "other"), "utf8")).toBe("other");
  });

  test("asks for both places before anything changes", async () => {
    await using temp = await openTempRoot(fill);
    const checkTo = (path: string): void => {
      throw new Error(`not to ${path}`);
    };
    await expect(temp.root.move(p("file"), p("new"), { checkTo })).rejects.toThrow("not to new");
    expect(readdirSync(temp.dir)).toContain("file");
  });
});

describe("making folders", () => {
  test("makes one, with its parents where that is asked for, and refuses what exists", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), ""));
    expect(await temp.root.makeFolder(p("a"))).toMatchObject({ path: "a", kind: "folder" });
    expect(await faultOf(temp.root.makeFolder(p("a")))).toMatchObject({ code: "ALREADY_EXISTS" });
    expect(await faultOf(temp.root.makeFolder(p("file")))).toMatchObject({ code: "ALREADY_EXISTS" });
    expect(await faultOf(temp.root.makeFolder(p("file"), { allowExisting: true }))).toMatchObject({
      code: "ALREADY_EXISTS",
    });
    expect(await temp.root.makeFolder(p("a"), { allowExisting: true })).toMatchObject({ kind: "folder" });
    expect(await faultOf(temp.root.makeFolder(p("b/c")))).toMatchObject({ code: "NOT_FOUND" });
    await temp.root.makeFolder(p("b/c"), { parents: true });
    expect(readdirSync(join(temp.dir, "b"))).toEqual(["c"]);
  });
});

describe("making links", () => {
  test("keeps their text, and is refused where it leads out", async () => {
    await using temp = await openTempRoot((dir) => {
      mkdirSync(join(dir, "sub"));
      writeFileSync(join(dir, "file"), "");
    });
    expect(await temp.root.makeLink(p("sub/up"), "../file")).toMatchObject({
      kind: "link",
      linkTarget: "../file",
    });
    expect(readlinkSync(join(temp.dir, "sub/up"))).toBe("../file");
    await temp.root.makeLink(p("sub/up"), "../file");
    expect(await faultOf(temp.root.makeLink(p("sub/up"), "other"))).toMatchObject({ code: "ALREADY_EXISTS" });
    await temp.root.makeLink(p("sub/up"), "other", { replace: true });
    expect(readlinkSync(join(temp.dir, "sub/up"))).toBe("other");
    for (const target of ["/etc", "../../outside", "../x/../../outside", ""]) {
      expect(await faultOf(temp.root.makeLink(p("sub/bad"), target))).toMatchObject({ code: "PATH_ESCAPES" });
    }
    expect(await faultOf(temp.root.makeLink(p("sub/bad"), "../x", { within: p("sub") }))).toMatchObject({
      code: "PATH_ESCAPES",
    });
    expect(await faultOf(temp.root.makeLink(p("file"), "x", { replace: true }))).toMatchObject({
      code: "ALREADY_EXISTS",
    });
    expect(readdirSync(join(temp.dir, "sub"))).toEqual(["up"]);
  });
});

describe("a parent that was swapped after it was resolved", () => {
  test("leads nowhere: what is done is done in the folder that was opened, or is refused", async () => {
    let swap: (() => void) | undefined;
    await using temp = await openTempRoot(
      (dir, outside) => {
        mkdirSync(join(dir, "d"));
        writeFileSync(join(dir, "d/secret"), "inside");
        writeFileSync(join(outside, "gone"), "outside");
      },
      { hooks: { afterResolve: () => swap?.() } },
    );
    swap = () => {
      swap = undefined;
      renameSync(join(temp.dir, "d"), join(temp.dir, "d2"));
      symlinkSync("../outside", join(temp.dir, "d"));
    };
    const read = (): string => temp.root.readSmall(p("d/secret"), { maxBytes: 100 }).content.toString();
    if (isOpenedWith("kernel")) expect(read()).toBe("inside");
    else expect(read).toThrow(expect.objectContaining({ code: "PATH_CHANGED" }));
    expect(await faultOf(temp.root.remove(p("d/gone")))).toMatchObject({ code: "SYMLINK_REFUSED" });
    expect(readdirSync(temp.outside).toSorted()).toEqual(["gone", "secret"]);
  });
});
