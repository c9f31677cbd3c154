import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { callContext, openTempExports } from "../../unit/workspace/temp-exports.ts";
import { readTree, treeMessages } from "./service.ts";

const workspace = "app";

describe("a tree", () => {
  const fill = (dir: string): void => {
    mkdirSync(join(dir, "tree/sub/empty"), { recursive: true });
    for (let index = 0; index < 300; index += 1)
      writeFileSync(join(dir, `tree/sub/f${index}`), `content ${index}`);
    writeFileSync(join(dir, "tree/.dot"), "dot");
    writeFileSync(join(dir, "tree/large"), Buffer.alloc(1_500_000, "x"));
    writeFileSync(join(dir, "tree/run"), "#!/bin/sh", { mode: 0o755 });
    utimesSync(join(dir, "tree/run"), 1_500_000_000, 1_500_000_000);
    symlinkSync("sub/f1", join(dir, "tree/link"));
  };

  test("goes out and comes in as the same tree", async () => {
    await using temp = await openTempExports(fill);
    const messages = await readTree(temp.files, "tree");
    expect(messages[0]?.source).toMatchObject({ workspace, requestedPath: "tree", canonicalPath: "tree" });
    const trailer = messages.at(-1)?.treeTrailer;
    expect(trailer).toMatchObject({ files: 303n, folders: 2n, links: 1n, failed: 0n });
    expect(messages.length).toBeLessThan(15);
    const answer = await temp.files.writeTree(treeMessages("copy", messages), callContext());
    expect(answer.stored).toMatchObject({ files: 303n, folders: 2n, sizeBytes: trailer?.sizeBytes });
    execFileSync("diff", ["-r", "--no-dereference", join(temp.dir, "tree"), join(temp.dir, "copy")]);
    expect(statSync(join(temp.dir, "copy/run")).mode & 0o777).toBe(0o755);
    expect(statSync(join(temp.dir, "copy/run")).mtimeMs).toBe(1_500_000_000_000);
    expect(readlinkSync(join(temp.dir, "copy/link"))).toBe("sub/f1");
  });

  test("serves the rest beside what cannot be served, or nothing further where that was asked for", async () => {
    await using temp = await openTempExports((dir, outside) => {
      for (let index = 0; index < 20; index += 1) writeFileSync(join(dir, `good${index}`), "x");
      symlinkSync("/etc/passwd", join(dir, "absolute"));
      symlinkSync("none", join(dir, "dangling"));
      symlinkSync("loop", join(dir, "loop"));
      linkSync(join(outside, "secret"), join(dir, "hard"));
      execFileSync("mkfifo", [join(dir, "fifo")]);
      writeFileSync(join(dir, ".env"), "hidden");
    });
    const messages = await readTree(temp.files, "");
    expect(messages.flatMap(({ problems }) => problems.map(({ path }) => path)).toSorted()).toEqual([
      "absolute",
      "dangling",
      "fifo",
      "hard",
      "loop",
    ]);
    expect(messages.at(-1)?.treeTrailer).toMatchObject({ files: 20n, failed: 5n });
    expect(await faultOf(readTree(temp.files, "", { strict: true }))).toMatchObject({ code: "PATH_ESCAPES" });
  });

  test("leaves out what an exclude glob means, dotfiles and whole folders included", async () => {
    await using temp = await openTempExports(fill);
    const messages = await readTree(temp.files, "tree", { exclude: ["sub", "**/.dot", "l*"] });
    expect(messages.flatMap(({ entries }) => entries.map(({ entry }) => entry?.path))).toEqual(["run"]);
  });

  test("over the machine's limits is refused", async () => {
    await using temp = await openTempExports(
      (dir) => {
        mkdirSync(join(dir, "1/2/3"), { recursive: true });
        for (let index = 0; index < 10; index += 1) writeFileSync(join(dir, `f${index}`), "");
      },
      { limits: { treeEntries: 12, treeDepth: 2 } },
    );
    expect(await faultOf(readTree(temp.files, ""))).toMatchObject({ code: "LIMIT_REACHED" });
  });

  test("that is cut off is never complete, and what stands under its name is whole", async () => {
    await using temp = await openTempExports(fill);
    const messages = await readTree(temp.files, "tree");
    for (let count = 0; count < messages.length; count += 1) {
      const cut = temp.files.writeTree(treeMessages(`cut${count}`, messages.slice(0, count)), callContext());
      expect(await faultOf(cut)).toMatchObject({ code: "INTEGRITY_FAILURE" });
    }
    const files = execFileSync("find", [temp.dir, "-path", "*cut*", "-type", "f"], { encoding: "utf8" })
      .trim()
      .split("\n");
    for (const file of files.filter((name) => name !== "")) {
      const original = file.replace(/cut\d+/, "tree");
      expect(readFileSync(file).equals(readFileSync(original)), file).toBe(true);
    }
    expect(files.filter((name) => name.includes("stage"))).toEqual([]);
  });

  test("keeps the modes of folders that their owner may not write", async () => {
    await using temp = await openTempExports((dir) => {
      mkdirSync(join(dir, "tree"));
      writeFileSync(join(dir, "tree/x"), "");
      chmodSync(join(dir, "tree/x"), 0o400);
    });
    await temp.files.writeTree(treeMessages("copy", await readTree(temp.files, "tree")), callContext());
    expect(lstatSync(join(temp.dir, "copy/x")).mode & 0o777).toBe(0o400);
  });
});
