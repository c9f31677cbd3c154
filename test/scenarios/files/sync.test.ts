import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { holdTarget } from "../../../gateway/cli/files/sync/hold-target.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { onTerminal } from "../../support/on-terminal.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { errorOf, startFilesPair, type FilesPair } from "./pair.ts";
import { makeSyncKit, type SyncResult, treeOf } from "./sync-kit.ts";

const patience = { timeout: 240_000 };
const mebi = 1024 * 1024;
let pair: FilesPair;
let proxy: FaultProxy;

beforeAll(async () => {
  pair = await startFilesPair({ throughProxy: true });
  if (!pair.proxy) throw new Error("the pair has no proxy");
  proxy = pair.proxy;
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

const failure = (result: CliResult): SyncResult => result.json as SyncResult;

proves(
  "files.sync-only-changed",
  "after a change only that file travels, either way, and what only the target has stays",
  patience,
  async () => {
    await using kit = await makeSyncKit(pair, "only-changed");
    const files = Object.fromEntries(
      Array.from({ length: 1000 }, (_, at) => [`only-changed/d${at % 10}/f${at}`, randomBytes(2048)]),
    );
    await pair.workspace.write(files);
    const first = await kit.sync();
    expect([first.filesSent, first.bytesSent]).toEqual([1000, 2_048_000]);
    expect(await treeOf(kit.local)).toEqual(await treeOf(kit.remote));

    await writeFile(join(kit.local, "mine"), "only here");
    await pair.workspace.write({ "only-changed/d3/f3": randomBytes(3000) });
    const before = proxy.counts.up.bytes;
    const second = await kit.run();
    expect([second.exitCode, second.stdout]).toEqual([
      0,
      expect.stringContaining("1 file and 3000 bytes sent, 999 files and 2045952 bytes reused"),
    ]);
    expect(second.stdout).toContain("~ d3/f3");
    // The manifest travels, and one file: far less than the files do.
    expect(proxy.counts.up.bytes - before).toBeLessThan(400_000);
    expect(await readFile(join(kit.local, "mine"), "utf8")).toBe("only here");
    expect(await kit.sync()).toMatchObject({ filesSent: 0, bytesSent: 0, filesReused: 1000, changes: [] });

    await writeFile(join(kit.local, "d4/f4"), randomBytes(100));
    await pair.workspace.write({ "only-changed/theirs": "only there" });
    const pushed = await kit.sync("--push");
    expect(pushed).toMatchObject({
      filesSent: 2,
      bytesSent: 109,
      filesReused: 999,
      changes: [
        { action: "change", path: "d4/f4" },
        { action: "create", path: "mine" },
      ],
    });
    expect(await readFile(join(kit.remote, "theirs"), "utf8")).toBe("only there");
    expect(await kit.sync("--push")).toMatchObject({ filesSent: 0, bytesSent: 0, filesReused: 1001 });
    const { theirs, ...remote } = await treeOf(kit.remote);
    expect(theirs).toBeDefined();
    expect(await treeOf(kit.local)).toEqual(remote);
  },
);

test("of two syncs to one target the second says that the first one runs", patience, async () => {
  await using kit = await makeSyncKit(pair, "two");
  const words = ["--push", "--json"];
  await mkdir(kit.local);
  const place = { dir: pair.gateway.home, key: "0".repeat(32) };
  {
    using _ = await holdTarget({ target: "devbox:/app/two", place });
    const second = await kit.run(...words);
    expect([second.exitCode, errorOf(second)]).toMatchObject([
      6,
      { code: "CONFLICT", message: "another sync of devbox:/app/two runs" },
    ]);
    expect((await kit.run("--push", "--dry-run")).exitCode).toBe(0);
  }
  expect((await kit.run(...words)).exitCode).toBe(0);
});

proves("files.content-reused", "equal files cross once, and a renamed one not at all", patience, async () => {
  for (const way of ["pull", "push"] as const) {
    await using kit = await makeSyncKit(pair, `reused-${way}`);
    const push = way === "push" ? ["--push"] : [];
    const source = way === "push" ? kit.local : kit.remote;
    const copy = randomBytes(mebi);
    await mkdir(source, { recursive: true });
    for (let at = 0; at < 100; at += 1) await writeFile(join(source, `copy-${at}`), copy);
    const counted = way === "push" ? "down" : "up";
    const before = proxy.counts[counted].bytes;
    const first = await kit.sync(...push);
    expect([way, first.filesSent, first.bytesSent, first.filesReused]).toEqual([way, 1, mebi, 99]);
    expect(proxy.counts[counted].bytes - before).toBeLessThan(1.5 * mebi);
    await mkdir(join(source, "moved"));
    await rename(join(source, "copy-7"), join(source, "moved/seven"));
    await writeFile(join(source, "copy-8"), randomBytes(700_000));
    await kit.sync(...push);
    await rename(join(source, "copy-8"), join(source, "moved/eight"));
    const renamed = await kit.sync("--delete", ...push);
    expect(renamed).toMatchObject({ filesSent: 0, bytesSent: 0 });
    expect(await treeOf(kit.local)).toEqual(await treeOf(kit.remote));
  }
});

proves(
  "files.sync-delete",
  "what the source has not is removed where that was asked for, but nothing that is left out; a dry run says the same",
  patience,
  async () => {
    await using kit = await makeSyncKit(pair, "delete");
    await pair.workspace.write({
      "delete/keep": "k",
      "delete/keep2": "k2",
      "delete/keep3": "k3",
      "delete/gone": "g",
      "delete/old/deep/file": "o",
      "delete/.dot": "d",
    });
    await kit.sync();
    for (const name of ["gone", "old", ".dot"]) await rm(join(kit.remote, name), { recursive: true });
    await mkdir(join(kit.local, "cache/.inner"), { recursive: true });
    await writeFile(join(kit.local, "cache/.inner/kept"), "cache");
    await writeFile(join(kit.local, ".env.local"), "mine");
    await writeFile(join(kit.local, "extra"), "mine");
    expect((await kit.sync()).changes).toEqual([]);
    expect(Object.keys(await treeOf(kit.local))).toContain("gone");

    await pair.workspace.write({ "delete/new": "n" });
    const args = ["--delete", "--exclude", "cache", "--exclude", ".env*"];
    const before = await treeOf(kit.local);
    const dry = await kit.sync(...args, "--dry-run");
    expect(await treeOf(kit.local)).toEqual(before);
    expect(dry.changes.map(({ action, path }) => `${action} ${path}`).toSorted()).toEqual([
      "create new",
      "remove .dot",
      "remove extra",
      "remove gone",
      "remove old",
      "remove old/deep",
      "remove old/deep/file",
    ]);
    const real = await kit.sync(...args);
    expect(real.changes).toEqual(dry.changes);
    expect(Object.keys(await treeOf(kit.local)).toSorted()).toEqual([
      ".env.local",
      "cache",
      "cache/.inner",
      "cache/.inner/kept",
      "keep",
      "keep2",
      "keep3",
      "new",
    ]);
  },
);

test(
  "a folder that became a file, and a file that became a folder, are replaced with --delete",
  patience,
  async () => {
    for (const push of [[], ["--push"]]) {
      const name = `kinds-${push.length}`;
      await using kit = await makeSyncKit(pair, name);
      const [source, target] = push.length > 0 ? [kit.local, kit.remote] : [kit.remote, kit.local];
      await mkdir(join(source, "x/deep"), { recursive: true });
      await mkdir(join(source, "mine"));
      for (const at of ["x/one", "x/deep/two", "y", "mine/a", "z"])
        await writeFile(join(source, at), `first ${at}`);
      await kit.sync(...push);
      await rename(join(source, "x/one"), join(source, "moved"));
      for (const at of ["x", "y", "mine"]) await rm(join(source, at), { recursive: true });
      await writeFile(join(source, "x"), "a file now");
      await writeFile(join(source, "mine"), "a file now");
      await mkdir(join(source, "y"));
      await writeFile(join(source, "y/in"), "in a folder");
      await writeFile(join(target, "mine/new"), "only here");

      const before = await treeOf(target);
      const plain = await kit.run("--json", ...push);
      expect(plain.exitCode).toBe(7);
      expect(failure(plain).failed.map(({ path, code }) => [path, code])).toEqual([
        ["mine", "CONFLICT"],
        ["x", "CONFLICT"],
        ["y", "CONFLICT"],
      ]);
      expect(await treeOf(target)).toEqual({ ...before, moved: digestOf("first x/one") });
      await rm(join(target, "moved"));

      const dry = await kit.run("--json", "--delete", "--dry-run", ...push);
      expect(dry.exitCode).toBe(7);
      expect(await treeOf(target)).toEqual(before);
      const real = await kit.run("--json", "--delete", ...push);
      expect(failure(real).changes).toEqual(failure(dry).changes);
      expect(failure(real).changes.map(({ action, path }) => `${action} ${path}`)).toEqual([
        "remove y",
        "remove x/one",
        "remove x/deep/two",
        "remove x/deep",
        "remove x",
        "create moved",
        "create x",
        "create y",
        "create y/in",
      ]);
      // What only the target has made in a folder is not taken for what may go.
      expect(failure(real).failed).toEqual([expect.objectContaining({ path: "mine", code: "CONFLICT" })]);
      expect(await readFile(join(target, "mine/new"), "utf8")).toBe("only here");
      await rm(join(target, "mine"), { recursive: true });
      await kit.sync(...push);
      expect(await treeOf(target)).toEqual(await treeOf(source));
      expect((await kit.sync("--delete", ...push)).changes).toEqual([]);
    }
  },
);

proves(
  "files.sync-root-replaced",
  "a source that is another folder, empty, or lacks most of its files removes nothing without a person",
  patience,
  async () => {
    const harms: Record<string, (folder: string) => Promise<void>> = {
      root_replaced: async (folder) => {
        await rename(folder, `${folder}.old`);
        await mkdir(folder);
        await writeFile(join(folder, "f1"), "1");
        await writeFile(join(folder, "f2"), "2");
        await writeFile(join(folder, "f3"), "3");
      },
      source_empty: async (folder) => {
        for (const name of await readdir(folder)) await rm(join(folder, name));
      },
      most_missing: async (folder) => {
        for (const name of ["f2", "f3", "f4"]) await rm(join(folder, name));
      },
    };
    for (const push of [[], ["--push"]]) {
      for (const [reason, harm] of Object.entries(harms)) {
        await using kit = await makeSyncKit(pair, `replaced-${reason}-${push.length}`);
        const [source, target] = push.length > 0 ? [kit.local, kit.remote] : [kit.remote, kit.local];
        await mkdir(source, { recursive: true });
        for (const at of [1, 2, 3, 4, 5]) await writeFile(join(source, `f${at}`), `${at}`);
        await kit.sync(...push);
        await harm(source);
        const before = await treeOf(target);
        const result = await kit.run("--delete", "--json", ...push);
        expect([reason, result.exitCode, errorOf(result)]).toEqual([
          reason,
          6,
          expect.objectContaining({ code: "CONFLICT", details: expect.objectContaining({ reason }) }),
        ]);
        expect(await treeOf(target)).toEqual(before);
        if (reason !== "most_missing") continue;
        if (push.length > 0) await kit.sync("--delete", "--accept-root", ...push);
        else {
          const asked = ["sync", `devbox:/app/replaced-${reason}-0`, kit.local, "--delete"];
          expect((await onTerminal(pair.gateway.home, asked, { answer: "n" })).code).toBe(6);
          expect(await treeOf(target)).toEqual(before);
          const { code, shown } = await onTerminal(pair.gateway.home, asked, { answer: "y" });
          expect([code, shown]).toEqual([0, expect.stringContaining("lacks 3 of 5 files")]);
        }
        expect(await treeOf(target)).toEqual(await treeOf(source));
      }
    }
  },
);

test("a source that is not there gives NOT_FOUND, and nothing is made for it", patience, async () => {
  await using kit = await makeSyncKit(pair, "missing");
  await rm(kit.remote, { recursive: true });
  expect((await kit.run()).exitCode).toBe(4);
  expect(await kit.here.entries()).toEqual([]);
  expect((await kit.run("--push")).exitCode).toBe(4);
  await expect(stat(kit.remote)).rejects.toThrow("ENOENT");
});

proves(
  "files.sync-both-changed",
  "what both sides changed is left and named with both digests, and all else is carried",
  patience,
  async () => {
    await using kit = await makeSyncKit(pair, "both");
    await pair.workspace.write({ "both/shared": "first", "both/other": "first", "both/mine": "first" });
    await kit.sync();
    await writeFile(join(kit.local, "shared"), "changed here");
    await writeFile(join(kit.local, "mine"), "only here");
    await pair.workspace.write({ "both/shared": "changed there", "both/other": "second" });
    const result = await kit.run("--json");
    expect(result.exitCode).toBe(7);
    expect(failure(result).failed).toEqual([
      expect.objectContaining({
        path: "shared",
        code: "CONFLICT",
        details: expect.objectContaining({
          source: digestOf("changed there"),
          target: digestOf("changed here"),
        }),
      }),
    ]);
    expect(failure(result).kept).toEqual(["mine"]);
    expect(await readFile(join(kit.local, "shared"), "utf8")).toBe("changed here");
    expect(await readFile(join(kit.remote, "shared"), "utf8")).toBe("changed there");
    expect(await readFile(join(kit.local, "other"), "utf8")).toBe("second");
    expect((await kit.run("--push")).exitCode).toBe(7);
    expect(await readFile(join(kit.remote, "mine"), "utf8")).toBe("only here");

    await writeFile(join(kit.local, "shared"), "changed there");
    expect(await kit.sync()).toMatchObject({ filesSent: 0, failed: [] });
    await pair.node.json(["node", "workspace", "rm", "app"]);
    // The agent reads its exports again and tells the gateway: until then the target is still there.
    await expect.poll(async () => (await kit.run()).exitCode, { timeout: 30_000 }).toBe(5);
    const gone = await kit.run("--json");
    expect([gone.exitCode, errorOf(gone).details["reason"]]).toEqual([5, "stopped"]);
    const add = ["node", "workspace", "add", "app", pair.workspace.path];
    await pair.node.json([...add, "--read", "**", "--write", "**"]);
    await expect.poll(async () => (await kit.run()).exitCode, { timeout: 30_000 }).toBe(0);
  },
);
