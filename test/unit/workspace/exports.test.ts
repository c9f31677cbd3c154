import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startExports } from "../../../node-agent/workspace/exports.ts";
import { createFilePolicy } from "../../../node-agent/workspace/file-policy.ts";
import { openWorkspace } from "../../../node-agent/workspace/open-workspace.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { faultOf } from "../../support/fault-of.ts";
import { p, readAll, summary, walkAll, writeAll } from "../root/temp-root.ts";
import { exportOf, openTempExports } from "./temp-exports.ts";

const limits = { treeEntries: 1_000_000, treeDepth: 64 };

describe("a machine's policy", () => {
  test("keeps secrets closed by their usual names, and .git from being written", () => {
    const policy = createFilePolicy(exportOf("/x"));
    for (const path of [
      ".env",
      "a/.env.local",
      ".ssh",
      "x/.ssh/id",
      "k.pem",
      "a/tls.key",
      "id_rsa",
      ".npmrc",
      ".netrc",
      ".aws/x",
      ".kube",
    ]) {
      expect(policy.judge("read", p(path)), path).toMatchObject({ decision: "deny", side: "node" });
      expect(policy.judge("write", p(path)), path).toMatchObject({ decision: "deny", side: "node" });
      expect(policy.isListed(p(path)) && !path.includes("/"), path).toBe(false);
    }
    expect(policy.judge("read", p(".git/config")).decision).toBe("allow");
    for (const operation of ["write", "remove", "move", "mkdir"] as const) {
      expect(policy.judge(operation, p(".git/config"))).toMatchObject({
        decision: "deny",
        rule: "deny **/.git/**",
      });
    }
  });

  test("adds deny globs to the built-in ones, of which each can be taken out by name", () => {
    const policy = createFilePolicy(exportOf("/x", { deny: ["private", "!**/id_*"] }));
    expect(policy.judge("read", p("private/x")).rule).toBe("deny private");
    expect(policy.judge("read", p("id_map.ts")).decision).toBe("allow");
    expect(policy.judge("read", p(".env")).decision).toBe("deny");
    expect(() => createFilePolicy(exportOf("/x", { deny: ["!**/mine"] }))).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "deny" } }),
    );
  });

  test("has removing, moving and making folders as permissions of their own", () => {
    const policy = createFilePolicy(exportOf("/x", { remove: false, move: false, mkdir: false }));
    expect(policy.judge("write", p("a")).decision).toBe("allow");
    for (const operation of ["remove", "move", "mkdir"] as const) {
      expect(policy.judge(operation, p("a"))).toMatchObject({ decision: "deny", rule: `${operation}_off` });
    }
  });

  test("says in its refusal which rule of which side it was, and what to do", () => {
    const policy = createFilePolicy(exportOf("/x", { read: ["src/*.ts"], write: [] }));
    const read = refusalOf(() => policy.require("read", p("src/deep/a.ts")));
    expect(read).toMatchObject({
      code: "POLICY_DENIED",
      details: { rule: "no_allow", side: "node", nearest: "src/*.ts" },
    });
    expect(read.hint).toContain("src/*.ts");
    expect(refusalOf(() => policy.require("write", p("src/a.ts"))).hint).toContain("write");
    expect(refusalOf(() => policy.require("read", p(".env")))).toMatchObject({
      details: { rule: "deny **/.env*" },
    });
  });
});

function refusalOf(run: () => void): Fault {
  try {
    run();
  } catch (error) {
    return error as Fault;
  }
  throw new Error("it was allowed");
}

describe("an export", () => {
  test("of the whole disk, of nothing, of a file and of this program's state is refused", async () => {
    const base = mkdtempSync(join(tmpdir(), "fairlead-refused-"));
    try {
      mkdirSync(join(base, "home/node"), { recursive: true });
      writeFileSync(join(base, "file"), "");
      const open = (dir: string): Promise<unknown> =>
        openWorkspace(exportOf(dir), { homeDir: join(base, "home"), epoch: 1, limits });
      expect(await faultOf(open("/"))).toMatchObject({ code: "INVALID_ARGUMENT" });
      expect(await faultOf(open(join(base, "none")))).toMatchObject({ code: "NOT_FOUND" });
      expect(await faultOf(open(join(base, "file")))).toMatchObject({ code: "NOT_A_DIRECTORY" });
      expect(await faultOf(open(join(base, "home")))).toMatchObject({ code: "POLICY_DENIED" });
      expect(await faultOf(open(join(base, "home/node")))).toMatchObject({ code: "POLICY_DENIED" });
      symlinkSync("home/node", join(base, "link"));
      expect(await faultOf(open(join(base, "link")))).toMatchObject({ code: "POLICY_DENIED" });
    } finally {
      rmSync(base, { recursive: true });
    }
  });

  test("that holds this program's state keeps it closed, whatever its globs say", async () => {
    const base = mkdtempSync(join(tmpdir(), "fairlead state "));
    try {
      mkdirSync(join(base, "home/node"), { recursive: true });
      writeFileSync(join(base, "home/node/secret"), "x");
      writeFileSync(join(base, "open"), "x");
      await using workspace = await openWorkspace(exportOf(base), {
        homeDir: join(base, "home"),
        epoch: 1,
        limits,
      });
      expect(await faultOf(workspace.root.openFile(p("home/node/secret")))).toMatchObject({
        code: "POLICY_DENIED",
        details: { rule: "own_state" },
      });
      expect(await faultOf(workspace.root.remove(p("home"), { recursive: true }))).toMatchObject({
        code: "POLICY_DENIED",
      });
      expect(summary(await walkAll(workspace.root, ""))).toEqual(["open"]);
      expect(readFileSync(join(base, "home/node/secret"), "utf8")).toBe("x");
    } finally {
      rmSync(base, { recursive: true });
    }
  });

  test("hides what is denied in listings and walks, and refuses it by name", async () => {
    await using temp = await openTempExports((dir) => {
      mkdirSync(join(dir, "sub/.ssh"), { recursive: true });
      for (const name of [".env", "seen", "sub/.ssh/id", "sub/seen", "tls.key"])
        writeFileSync(join(dir, name), "x");
    });
    const { root } = await temp.exports.get("app");
    expect((await root.list(p(""))).entries.map((entry) => entry.path)).toEqual(["seen", "sub"]);
    expect(summary(await walkAll(root, ""))).toEqual(["seen", "sub", "sub/seen"]);
    for (const path of [".env", "sub/.ssh", "sub/.ssh/id", "sub/.ssh/none"]) {
      expect(await faultOf(root.stat(p(path)))).toMatchObject({ code: "POLICY_DENIED" });
    }
  });

  test("refuses a removal or move that would take a denied entry along, and changes nothing", async () => {
    await using temp = await openTempExports((dir) => {
      mkdirSync(join(dir, "sub/deep"), { recursive: true });
      writeFileSync(join(dir, "sub/deep/.env"), "x");
      writeFileSync(join(dir, "sub/a"), "x");
    });
    const { root } = await temp.exports.get("app");
    for (const change of [root.remove(p("sub"), { recursive: true }), root.move(p("sub"), p("other"))]) {
      expect(await faultOf(change)).toMatchObject({
        code: "POLICY_DENIED",
        details: { rule: "deny **/.env*" },
      });
    }
    expect(readdirSync(join(temp.dir, "sub")).toSorted()).toEqual(["a", "deep"]);
  });

  test("judges the canonical path behind a link as well", async () => {
    await using temp = await openTempExports(
      (dir) => {
        mkdirSync(join(dir, "private"));
        writeFileSync(join(dir, "private/x"), "x");
        symlinkSync("private", join(dir, "alias"));
      },
      { settings: { followSymlinks: true, deny: ["private"] } },
    );
    const { root } = await temp.exports.get("app");
    expect(await faultOf(root.openFile(p("alias/x")))).toMatchObject({
      code: "POLICY_DENIED",
      details: { path: "private/x" },
    });
    expect(await faultOf(root.stageWrite(p("alias/new")))).toMatchObject({ code: "POLICY_DENIED" });
    expect(await faultOf(root.list(p("alias")))).toMatchObject({ code: "POLICY_DENIED" });
    expect(readdirSync(join(temp.dir, "private"))).toEqual(["x"]);
  });

  test("lets a deny that was set after a write began win", async () => {
    await using temp = await openTempExports();
    const workspace = await temp.exports.get("app");
    await using staged = await workspace.root.stageWrite(p("file"));
    await staged.write(Buffer.from("x"));
    await temp.exports.apply([exportOf(temp.dir, { deny: ["file"] })]);
    expect(await faultOf(staged.commit({ precondition: { kind: "any" } }))).toMatchObject({
      code: "POLICY_DENIED",
    });
    expect(readdirSync(temp.dir)).not.toContain("file");
    expect(await temp.exports.get("app")).toBe(workspace);
  });

  test("permits one path without its parent or siblings", async () => {
    await using temp = await openTempExports(
      (dir) => {
        mkdirSync(join(dir, "src"));
        for (const name of ["src/one", "src/two"]) writeFileSync(join(dir, name), name);
      },
      { settings: { read: ["src/one"], write: [] } },
    );
    const { root } = await temp.exports.get("app");
    expect(await readAll(root, "src/one")).toBe("src/one");
    for (const path of ["", "src", "src/two"])
      expect(await faultOf(root.stat(p(path)))).toMatchObject({ code: "POLICY_DENIED" });
    expect(await faultOf(writeAll(root, "src/one", "x"))).toMatchObject({ code: "POLICY_DENIED" });
  });
});

describe("the exports of a machine", () => {
  test("follow their settings: what is gone ends, what is new is there", async () => {
    let changes = 0;
    const base = mkdtempSync(join(tmpdir(), "fairlead-apply-"));
    try {
      for (const name of ["a", "b", "home"]) mkdirSync(join(base, name));
      const a = exportOf(join(base, "a"), { name: "a" });
      const b = exportOf(join(base, "b"), { name: "b" });
      await using exports = await startExports([a], {
        homeDir: join(base, "home"),
        limits,
        onChange: () => void (changes += 1),
      });
      const first = await exports.get("a");
      await exports.apply([b]);
      expect(first.signal.reason).toMatchObject({
        code: "WORKSPACE_ACCESS_UNAVAILABLE",
        details: { reason: "stopped" },
      });
      expect(await faultOf(exports.get("a"))).toMatchObject({ code: "NOT_FOUND" });
      await exports.apply([b, a]);
      const second = await exports.get("a");
      expect(second.epoch).toBeGreaterThan(first.epoch);
      expect(await faultOf(first.root.stat(p("")))).toMatchObject({ code: "CANCELLED" });
      expect(exports.list().map(({ settings, fault }) => [settings.name, fault])).toEqual([
        ["b", undefined],
        ["a", undefined],
      ]);
      expect(changes).toBe(3);
    } finally {
      rmSync(base, { recursive: true });
    }
  });

  test("show one whose folder is missing with its fault, and serve it once the folder is there", async () => {
    const base = mkdtempSync(join(tmpdir(), "fairlead-missing-"));
    try {
      await using exports = await startExports([exportOf(join(base, "later"))], {
        homeDir: join(base, "home"),
        limits,
      });
      expect(exports.list()).toMatchObject([{ epoch: 0, fault: { code: "NOT_FOUND" } }]);
      expect(await faultOf(exports.get("app"))).toMatchObject({ code: "NOT_FOUND" });
      mkdirSync(join(base, "later"));
      expect((await exports.get("app")).epoch).toBeGreaterThan(0);
      expect(exports.list()[0]?.fault).toBeUndefined();
    } finally {
      rmSync(base, { recursive: true });
    }
  });

  test("keep the last good rules of an export while the new ones cannot be read", async () => {
    await using temp = await openTempExports(undefined, { settings: { deny: ["shut"] } });
    const before = await temp.exports.get("app");
    // Also where the export would have been opened anew for its other settings.
    for (const followSymlinks of [false, true]) {
      const wrong = [exportOf(temp.dir, { deny: ["a}"], followSymlinks })];
      expect(await faultOf(temp.exports.apply(wrong))).toMatchObject({ code: "INVALID_ARGUMENT" });
      expect(await temp.exports.get("app")).toBe(before);
      expect(temp.exports.list()).toMatchObject([{ settings: { deny: ["shut"] } }]);
    }
    await temp.exports.apply([exportOf(temp.dir, { followSymlinks: true })]);
    expect((await temp.exports.get("app")).settings.deny).toEqual([]);
  });
});
