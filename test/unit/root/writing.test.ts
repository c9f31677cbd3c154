import { execFileSync, fork, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { readOwnMarker } from "../../../shared/root/linux/process-marker.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import { createStagedName, keptNameOf } from "../../../shared/root/staged-name.ts";
import { faultOf } from "../../support/fault-of.ts";
import { foundIn, openTempRoot, p, writeAll } from "./temp-root.ts";

const any = { precondition: { kind: "any" } } as const;
const absent = { precondition: { kind: "absent" } } as const;

describe("a staged file", () => {
  test("is seen only once it is committed, with its bytes, mode and time", async () => {
    await using temp = await openTempRoot();
    await using staged = await temp.root.stageWrite(p("file"), {
      mode: 0o640,
      mtimeNs: 1_234_567_890_123_456_789n,
    });
    await staged.write(Buffer.from("hello "));
    await staged.write(Buffer.from("world"));
    expect(readdirSync(temp.dir)).not.toContain("file");
    expect(staged.digest()).toBe(digestOf("hello world"));
    const receipt = await staged.commit(absent);
    expect(receipt).toMatchObject({
      publication: "committed",
      sizeBytes: 11,
      digest: digestOf("hello world"),
      canonicalPath: "file",
      replaced: false,
    });
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("hello world");
    const stats = statSync(join(temp.dir, "file"), { bigint: true });
    expect(Number(stats.mode & 0o7777n)).toBe(0o640);
    expect(stats.mtimeNs / 1000n).toBe(1_234_567_890_123_456n);
    expect(readdirSync(temp.dir)).toEqual(["file"]);
  });

  test("that is dropped leaves folder and target as they were, made parents included", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "old"));
    {
      await using staged = await temp.root.stageWrite(p("file"));
      await staged.write(Buffer.from("new"));
      await using deep = await temp.root.stageWrite(p("a/b/c"));
      await deep.write(Buffer.from("new"));
      expect(readdirSync(temp.dir)).toContain("a");
    }
    expect(readdirSync(temp.dir)).toEqual(["file"]);
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("old");
  });

  test("that is not what was announced is not published", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "old"));
    for (const expected of [{ sizeBytes: 4 }, { sizeBytes: 3, digest: digestOf("xyz") }]) {
      await using staged = await temp.root.stageWrite(p("file"));
      await staged.write(Buffer.from("new"));
      const fault = await faultOf(staged.commit({ ...any, expected }));
      expect(fault).toMatchObject({ code: "INTEGRITY_FAILURE", details: { publication: "unattempted" } });
    }
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("old");
    expect(readdirSync(temp.dir)).toEqual(["file"]);
  });

  test("keeps the mode of the file that it replaces, unless another is asked for", async () => {
    await using temp = await openTempRoot((dir) => {
      writeFileSync(join(dir, "file"), "old");
      chmodSync(join(dir, "file"), 0o751);
    });
    await writeAll(temp.root, "file", "new");
    expect(statSync(join(temp.dir, "file")).mode & 0o777).toBe(0o751);
    await using staged = await temp.root.stageWrite(p("file"), { mode: 0o6600 });
    await staged.commit(any);
    expect(statSync(join(temp.dir, "file")).mode & 0o7777).toBe(0o600);
  });

  test("over its limit is refused", async () => {
    await using temp = await openTempRoot();
    await using staged = await temp.root.stageWrite(p("file"), { maxBytes: 4 });
    await staged.write(Buffer.from("1234"));
    expect(await faultOf(staged.write(Buffer.from("5")))).toMatchObject({
      code: "TOO_LARGE",
      details: { limit: 4, actual: 5 },
    });
  });

  test("needs its parents where they are not to be made", async () => {
    await using temp = await openTempRoot();
    expect(await faultOf(temp.root.stageWrite(p("a/b/c"), { createParents: false }))).toMatchObject({
      code: "NOT_FOUND",
      details: { path: "a" },
    });
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  test("is refused at a folder, at the root and under a name that is kept", async () => {
    await using temp = await openTempRoot((dir) => mkdirSync(join(dir, "folder")));
    expect(await faultOf(temp.root.stageWrite(p("folder")))).toMatchObject({ code: "NOT_A_FILE" });
    expect(await faultOf(temp.root.stageWrite(p("")))).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await faultOf(temp.root.stageWrite(p(".fairlead-stage-x")))).toMatchObject({
      code: "PATH_INVALID",
    });
    expect(await faultOf(temp.root.stat(p(".fairlead-stage-x")))).toMatchObject({ code: "NOT_FOUND" });
  });

  test("is stopped by the check before any folder is made", async () => {
    await using temp = await openTempRoot();
    const asked: string[] = [];
    const check = (path: string): void => {
      asked.push(path);
      throw new Error("no");
    };
    await expect(temp.root.stageWrite(p("a/b"), { check })).rejects.toThrow("no");
    expect(asked).toEqual(["a/b"]);
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  test("is taken away when the root is closed", async () => {
    const temp = await openTempRoot();
    const staged = await temp.root.stageWrite(p("file"));
    await staged.write(Buffer.from("half"));
    await temp.root[Symbol.asyncDispose]();
    expect(readdirSync(temp.dir)).toEqual([]);
    await expect(staged.write(Buffer.from("more"))).rejects.toThrow();
    await temp[Symbol.asyncDispose]();
  });
});

describe("a precondition", () => {
  test("of a digest holds only while the target has it", async () => {
    await using temp = await openTempRoot((dir) => {
      writeFileSync(join(dir, "file"), "old");
      utimesSync(join(dir, "file"), 1000, 1000);
    });
    const before = statSync(join(temp.dir, "file"));
    await using wrong = await temp.root.stageWrite(p("file"));
    const fault = await faultOf(wrong.commit({ precondition: { kind: "match", digest: digestOf("other") } }));
    expect(fault).toMatchObject({
      code: "CONFLICT",
      details: { expected: digestOf("other"), actual: digestOf("old"), publication: "unattempted" },
    });
    expect(statSync(join(temp.dir, "file"))).toMatchObject({
      mtimeMs: before.mtimeMs,
      mode: before.mode,
      ino: before.ino,
    });
    await using right = await temp.root.stageWrite(p("file"));
    await right.write(Buffer.from("new"));
    const receipt = await right.commit({ precondition: { kind: "match", digest: digestOf("old") } });
    expect(receipt).toMatchObject({ replaced: true, replacedDigest: digestOf("old") });
    expect(
      await faultOf(
        temp.root.stageWrite(p("none"), { precondition: { kind: "match", digest: digestOf("x") } }),
      ),
    ).toMatchObject({
      code: "CONFLICT",
      details: { actual: "absent" },
    });
  });

  test("of absence holds only while nothing stands there", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "old"));
    expect(await faultOf(temp.root.stageWrite(p("file"), absent))).toMatchObject({ code: "ALREADY_EXISTS" });
    await using staged = await temp.root.stageWrite(p("new"), absent);
    writeFileSync(join(temp.dir, "new"), "somebody else's");
    expect(await faultOf(staged.commit(absent))).toMatchObject({ code: "ALREADY_EXISTS" });
    expect(readFileSync(join(temp.dir, "new"), "utf8")).toBe("somebody else's");
    expect(readdirSync(temp.dir).toSorted()).toEqual(["file", "new"]);
  });

  test("lets one of 50 writers win, with its bytes", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "old"));
    const race = async (path: string, precondition: Parameters<typeof commitOne>[2]): Promise<string[]> =>
      await Promise.all(
        Array.from({ length: 50 }, (_, index) => commitOne(path, `writer ${index}`, precondition)),
      );
    async function commitOne(
      path: string,
      content: string,
      precondition: Parameters<Awaited<ReturnType<typeof temp.root.stageWrite>>["commit"]>[0]["precondition"],
    ): Promise<string> {
      await using staged = await temp.root.stageWrite(p(path));
      await staged.write(Buffer.from(content));
      return await staged.commit({ precondition }).then(
        () => content,
        (error: { code: string }) => error.code,
      );
    }
    const matched = await race("file", { kind: "match", digest: digestOf("old") });
    expect(matched.filter((outcome) => outcome === "CONFLICT")).toHaveLength(49);
    expect(matched).toContain(readFileSync(join(temp.dir, "file"), "utf8"));
    const created = await race("new", { kind: "absent" });
    expect(created.filter((outcome) => outcome === "ALREADY_EXISTS")).toHaveLength(49);
    expect(created).toContain(readFileSync(join(temp.dir, "new"), "utf8"));
    expect(readdirSync(temp.dir).toSorted()).toEqual(["file", "new"]);
  });
});

describe("publishing", () => {
  test("is tried again when the rename is refused for the moment, and given up after that", async () => {
    let refusals = 3;
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "old"), {
      hooks: {
        beforePublish: () => {
          if (refusals > 0) {
            refusals -= 1;
            throw Object.assign(new Error("busy"), { code: "EBUSY" });
          }
        },
      },
    });
    await writeAll(temp.root, "file", "new");
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("new");
    refusals = 100;
    expect(await faultOf(writeAll(temp.root, "file", "newer"))).toMatchObject({
      code: "IO_ERROR",
      details: { errno: "EBUSY", publication: "unattempted" },
    });
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("new");
    expect(readdirSync(temp.dir)).toEqual(["file"]);
  });

  test("of which nobody knows whether it took effect says so", async () => {
    await using temp = await openTempRoot(() => undefined, {
      hooks: {
        beforePublish: () => {
          throw Object.assign(new Error("io"), { code: "EIO" });
        },
      },
    });
    expect(await faultOf(writeAll(temp.root, "file", "new"))).toMatchObject({
      code: "IO_ERROR",
      details: { errno: "EIO", publication: "uncertain" },
    });
  });

  test("fails when the folder was moved or replaced meanwhile, and nothing is left in either", async () => {
    await using temp = await openTempRoot((dir) => mkdirSync(join(dir, "folder")));
    await using staged = await temp.root.stageWrite(p("folder/file"));
    await staged.write(Buffer.from("new"));
    renameSync(join(temp.dir, "folder"), join(temp.outside, "moved"));
    mkdirSync(join(temp.dir, "folder"));
    expect(await faultOf(staged.commit(any))).toMatchObject({ code: "PATH_CHANGED" });
    expect(foundIn(join(temp.outside, "moved"))).toEqual([]);
    expect(readdirSync(join(temp.dir, "folder"))).toEqual([]);
  });

  test("refuses a target that became a link, a folder or a second name", async () => {
    await using temp = await openTempRoot();
    const stages = await Promise.all(["a", "b", "c"].map((name) => temp.root.stageWrite(p(name))));
    symlinkSync("../outside/secret", join(temp.dir, "a"));
    mkdirSync(join(temp.dir, "b"));
    linkSync(join(temp.outside, "secret"), join(temp.dir, "c"));
    const codes = await Promise.all(stages.map(async (staged) => (await faultOf(staged.commit(any))).code));
    expect(codes).toEqual(["SYMLINK_REFUSED", "NOT_A_FILE", "HARDLINK_REFUSED"]);
    expect(readFileSync(join(temp.outside, "secret"), "utf8")).toBe("outside secret");
  });

  test("shows a reader only whole old or whole new content", async () => {
    await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "0".repeat(5000)));
    const seen = new Set<string>();
    let isWriting = true;
    const reading = (async () => {
      while (isWriting) {
        const { content } = temp.root.readSmall(p("file"), { maxBytes: 10_000 });
        seen.add(`${content.length}:${new Set(content).size}`);
        await new Promise((resolve) => void setImmediate(resolve));
      }
    })();
    for (let round = 1; round <= 50; round += 1)
      await writeAll(temp.root, "file", String(round % 10).repeat(5000));
    isWriting = false;
    await reading;
    expect([...seen]).toEqual(["5000:1"]);
  });
});

test("a full disk is DISK_FULL, the old content stays and nothing else", async ({ skip }) => {
  const base = mkdtempSync(join(tmpdir(), "fairlead-full-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", base], { stdio: "ignore" });
  } catch {
    skip("mounting is not allowed here");
  }
  try {
    writeFileSync(join(base, "file"), "old");
    await using root = await openRoot(base);
    await using staged = await root.stageWrite(p("file"));
    const fault = await faultOf(
      (async () => {
        for (let index = 0; index < 20; index += 1) await staged.write(Buffer.alloc(256 * 1024, index));
      })(),
    );
    expect(fault).toMatchObject({
      code: "DISK_FULL",
      details: { errno: "ENOSPC", publication: "unattempted" },
    });
    expect(await faultOf(staged.commit(any))).toMatchObject({ code: "DISK_FULL" });
    await staged.discard();
    expect(readFileSync(join(base, "file"), "utf8")).toBe("old");
    expect(readdirSync(base)).toEqual(["file"]);
  } finally {
    execFileSync("umount", [base]);
    rmSync(base, { recursive: true });
  }
});

describe("leftovers of a killed process", () => {
  test("are removed where they are whole folders, as an attack on a workspace makes one", async () => {
    await using temp = await openTempRoot();
    const gone = createStagedName({ ...readOwnMarker(), startTicks: "1" });
    mkdirSync(join(temp.dir, gone, "inside/d"), { recursive: true });
    symlinkSync("../../outside", join(temp.dir, gone, "inside/link"));
    await using again = await openRoot(temp.dir, { sweep: true });
    expect([await again.swept, readdirSync(temp.dir), readdirSync(temp.outside)]).toEqual([
      1,
      [],
      ["secret"],
    ]);
  });

  test("are removed when the root is opened again, those of a living one stay", async () => {
    await using temp = await openTempRoot(
      (dir) => void mkdirSync(join(dir, "deep/folder"), { recursive: true }),
    );
    const child = fork(new URL("../../fixtures/root/stage-and-wait.ts", import.meta.url), [
      temp.dir,
      "deep/folder/file",
    ]);
    await once(child, "message");
    await using own = await temp.root.stageWrite(p("mine"));
    const count = (): number =>
      readdirSync(temp.dir, { recursive: true }).filter((name) => String(name).includes(".fairlead-stage-"))
        .length;
    expect(count()).toBe(2);
    {
      await using whileAlive = await openRoot(temp.dir, { sweep: true });
      expect(await whileAlive.swept).toBe(0);
    }
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
    await using again = await openRoot(temp.dir, { sweep: true });
    expect(await again.swept).toBe(1);
    expect(count()).toBe(1);
    await own.write(Buffer.from("still works"));
    await own.commit(any);
    expect(readFileSync(join(temp.dir, "mine"), "utf8")).toBe("still works");
  });

  test("are removed also while nobody has asked how the process ended", async () => {
    // A program that never asks for its child: the child stays a zombie for as long as it runs.
    const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [said] = (await once(parent.stdout, "data")) as [Buffer];
      const pid = Number(said.toString());
      const stat = (): readonly string[] =>
        readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
      await expect.poll(() => stat()[0], { timeout: 10_000 }).toBe("Z");
      const zombie = { ...readOwnMarker(), pid, startTicks: stat()[19] ?? "" };
      await using temp = await openTempRoot((dir) => {
        writeFileSync(join(dir, createStagedName(zombie)), "begun");
        writeFileSync(join(dir, createStagedName(zombie, "0".repeat(32))), "to go on with");
      });
      await using root = await openRoot(temp.dir, { sweep: true });
      expect(await root.swept).toBe(1);
      expect(readdirSync(temp.dir)).toEqual([keptNameOf("0".repeat(32))]);
    } finally {
      parent.kill();
    }
  });
});
