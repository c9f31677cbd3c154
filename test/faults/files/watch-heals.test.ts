import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { OpenWatch } from "../../../node-agent/workspace/kernel-watches.ts";
import type { Delivery } from "../../../node-agent/workspace/shared-watch.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { proves } from "../../support/proves.ts";
import { followWatch } from "../../unit/workspace/follow-watch.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";
import { callContext, openTempExports, type TempExports } from "../../unit/workspace/temp-exports.ts";

const patience = { timeout: 120_000 };

/** What a tree holds, by path: a file's digest, `folder` for a folder. */
type Tree = Map<string, string>;

function treeOnDisk(dir: string): Tree {
  const tree: Tree = new Map();
  for (const path of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
    const isFile = statSync(join(dir, path)).isFile();
    tree.set(path, isFile ? digestOf(readFileSync(join(dir, path))) : "folder");
  }
  return tree;
}

async function treeOfManifest(temp: TempExports): Promise<Tree> {
  const { entries } = await readManifestOf(temp.manifest());
  const isFolder = (path: string): boolean => statSync(join(temp.dir, path)).isDirectory();
  return new Map(Object.entries(entries).map(([path, digest]) => [path, isFolder(path) ? "folder" : digest]));
}

/** A tree after some events, by nothing but what they say. */
function apply(tree: Tree, events: readonly Delivery[]): Tree {
  for (const event of events) {
    expect(event.kind).not.toBe("gap");
    if (!("path" in event)) continue;
    if (event.from !== undefined) tree.delete(event.from);
    const { shown } = event;
    if (!shown) tree.delete(event.path);
    else tree.set(event.path, shown.kind === "file" ? (shown.digest ?? "none") : shown.kind);
  }
  return tree;
}

const sorted = (tree: Tree): readonly unknown[] => [...tree].toSorted(([a], [b]) => (a < b ? -1 : 1));

function fill(dir: string, mark: string): void {
  mkdirSync(join(dir, "in/ner"), { recursive: true });
  writeFileSync(join(dir, "top"), mark);
  writeFileSync(join(dir, "in/ner/file"), mark);
}

proves(
  "files.watch-settles-to-disk",
  "the events after deep folders in one go, and after folders and the root that came again, give what the disk holds",
  patience,
  async () => {
    await using temp = await openTempExports((dir) => fill(join(dir, "again"), "first"));
    const tree = await treeOfManifest(temp);
    await using seen = followWatch(await temp.watch());
    await seen.seen("available");
    for (let round = 0; round < 200; round += 1) {
      const deep = join(temp.dir, `r${round}/a/b/c/d/e`);
      mkdirSync(deep, { recursive: true });
      writeFileSync(join(deep, "file"), String(round));
    }
    await seen.settle();
    expect(sorted(apply(tree, seen.events))).toEqual(sorted(treeOnDisk(temp.dir)));
    let applied = seen.events.length;
    for (const gapMs of [0, 1, 50, 500]) {
      for (const folder of [join(temp.dir, "again"), temp.dir]) {
        rmSync(folder, { recursive: true });
        if (gapMs > 0) await systemClock.sleep(gapMs);
        mkdirSync(folder);
        fill(folder, `${gapMs} ${folder}`);
        if (folder === temp.dir) fill(join(folder, "again"), `${gapMs} within`);
        await expect
          .poll(
            async () => {
              await seen.settle();
              const events = seen.events.slice(applied);
              applied = seen.events.length;
              return sorted(apply(tree, events));
            },
            { timeout: 20_000 },
          )
          .toEqual(sorted(treeOnDisk(temp.dir)));
      }
    }
  },
);

/** Replaces each of three files by rename, in rounds, from a process of its own. */
const replaceThree = `
  const { renameSync, writeFileSync } = require("node:fs");
  const [dir, aside] = process.argv.slice(1);
  for (let round = 1; round <= 1000; round += 1) {
    for (const name of ["a", "b", "c"]) {
      writeFileSync(aside, name + " " + round);
      renameSync(aside, dir + "/" + name);
    }
  }
`;

proves(
  "files.watch-atomic-save",
  "files that are replaced again and again are never told to be gone, and the last event has the last digest",
  patience,
  async () => {
    // For its first 100 ms no file can be opened after its event.
    const blocked = { untilMs: 0, count: 0 };
    await using temp = await openTempExports(
      (dir) => {
        for (const name of ["a", "b", "c"]) writeFileSync(join(dir, name), "0");
      },
      {
        hooks: {
          afterResolve: ({ operation }) => {
            if (operation !== "open") return;
            if (blocked.untilMs === Infinity) blocked.untilMs = Date.now() + 100;
            if (Date.now() >= blocked.untilMs) return;
            blocked.count += 1;
            throw new Fault("IO_ERROR", "the file is held by somebody else");
          },
        },
      },
    );
    await using seen = followWatch(await temp.watch());
    await seen.seen("available");
    const aside = `${temp.dir}.aside`;
    const replacing = { isOver: false };
    const child = spawn(process.execPath, ["-e", replaceThree, temp.dir, aside], { stdio: "ignore" });
    const ended = once(child, "exit").finally(() => void (replacing.isOver = true));
    let looks = 0;
    for (; !replacing.isOver; looks += 1) {
      const { entry } = await temp.files.stat(
        { ...statRequest, askNobody: false, path: ["a", "b", "c"][looks % 3] ?? "" },
        callContext(),
      );
      expect(entry?.path).toBeDefined();
      if (looks % 50 === 0) await systemClock.sleep(0);
    }
    expect(await ended).toEqual([0, null]);
    await seen.settle();
    const lastDigest = (name: string): string | undefined => {
      const event = seen.events.findLast((one) => "path" in one && one.path === name);
      return event && "shown" in event && event.shown?.kind === "file" ? event.shown.digest : undefined;
    };
    for (const name of ["a", "b", "c"]) expect(lastDigest(name)).toBe(digestOf(`${name} 1000`));
    blocked.untilMs = Infinity;
    writeFileSync(aside, "held");
    renameSync(aside, join(temp.dir, "a"));
    await expect.poll(() => lastDigest("a"), { timeout: 10_000 }).toBe(digestOf("held"));
    expect([looks > 10, blocked.count > 0]).toEqual([true, true]);
    expect(seen.events.filter(({ kind }) => kind === "removed" || kind === "gap")).toEqual([]);
  },
);

const statRequest = { $typeName: "fairlead.v1.FilesStatRequest", workspace: "app", leaseEpoch: 0n } as const;

/** Watches that can be made deaf: those there are, and those to come, say nothing then, and no error either. */
function openDeaf(): { readonly open: OpenWatch; isDeaf: boolean; opened: number } {
  const state = {
    isDeaf: false,
    opened: 0,
    open: ((path: string, options: object, listener: (event: string, name: string) => void) => {
      state.opened += 1;
      let wasDeaf = state.isDeaf;
      return watch(path, options, (event, name) => {
        // What was deaf once hears nothing again.
        wasDeaf ||= state.isDeaf;
        if (!wasDeaf) listener(event, String(name));
      });
    }) as OpenWatch,
  };
  return state;
}

proves(
  "files.watch-dead-watcher",
  "a watch that ends without a word is told of within one interval, replaced by looking, and tried again for ever",
  patience,
  async () => {
    const scanEveryMs = 6_000;
    const kernel = openDeaf();
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "a"), "1"), {
      openWatch: kernel.open,
      scanEveryMs,
    });
    await using seen = followWatch(await temp.watch());
    await seen.seen("available");
    kernel.isDeaf = true;
    await expect.poll(() => seen.events.at(-1)?.kind, { timeout: scanEveryMs }).toBe("unavailable");
    expect(seen.events.at(-1)).toMatchObject({ fault: { details: { reason: "watch_ended" } } });
    for (const content of ["22", "333"]) {
      writeFileSync(join(temp.dir, "a"), content);
      await expect.poll(() => seen.take(), { timeout: 20_000 }).toContain("changed a");
    }
    const tries = kernel.opened;
    await expect.poll(() => kernel.opened, { timeout: 30_000 }).toBeGreaterThan(tries + 4);
    writeFileSync(join(temp.dir, "b"), "b");
    kernel.isDeaf = false;
    await expect.poll(() => seen.events.at(-1)?.kind, { timeout: 20_000 }).toBe("available");
    expect(seen.take()).toContain("created b");
    writeFileSync(join(temp.dir, "c"), "c");
    await seen.settle();
    expect(seen.take()).toEqual(["created c"]);
  },
);
