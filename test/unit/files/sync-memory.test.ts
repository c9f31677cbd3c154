import { expect, test } from "vitest";
import { followAttempts } from "../../../gateway/cli/files/sync/earlier-changes.ts";
import { createExclusion } from "../../../gateway/cli/files/sync/list-trees.ts";
import { planSync } from "../../../gateway/cli/files/sync/plan-sync.ts";
import { baseFor, type Found, nextBase } from "../../../gateway/cli/files/sync/remember.ts";
import { contentOf, type SyncEntry } from "../../../gateway/cli/files/sync/sync-entry.ts";
import type { SyncState } from "../../../gateway/cli/files/sync/sync-state.ts";

function treeOf(entries: Readonly<Record<string, string>>): Map<string, SyncEntry> {
  const made = Object.entries(entries).map(([path, content]): [string, SyncEntry] => {
    const kind = content === "/" ? "folder" : "file";
    const entry = { path, kind, sizeBytes: 1, mode: 0o644, modifiedNs: 0n } as const;
    return [path, { ...entry, content: kind === "folder" ? "" : content }];
  });
  return new Map(made);
}

const contents = (entries: Readonly<Record<string, string>>): Map<string, string> =>
  new Map([...treeOf(entries)].map(([path, entry]) => [path, contentOf(entry)]));

function stateOf(more: Partial<SyncState>): SyncState {
  return {
    remoteIdentity: "there",
    localIdentity: "here",
    remoteDigest: "",
    remoteEntries: [],
    base: new Map(),
    localFiles: new Map(),
    coming: new Map(),
    ...more,
  };
}

interface Sides {
  readonly source: Readonly<Record<string, string>>;
  readonly target: Readonly<Record<string, string>>;
  readonly base?: ReadonlyMap<string, string>;
  readonly unread?: readonly string[];
  readonly exclude?: readonly string[];
}

/** A pull of these trees, planned with `--delete`. */
function find({ source, target, base = new Map(), unread = [], exclude = [] }: Sides): Found {
  const missing = new Set(unread);
  const [remote, local] = [treeOf(source), treeOf(target)];
  return {
    state: undefined,
    isPush: false,
    exclusion: createExclusion(exclude),
    remoteTree: { identity: "there", digest: "", entries: remote, all: [], problems: [], source: undefined },
    localTree: { identity: "here", entries: local, files: new Map(), problems: [] },
    base,
    unread: missing,
    twins: [],
    plan: planSync({ source: remote, target: local, base, unread: missing, deletes: true }),
  };
}

test("what earlier attempts of one sync have made is told of with what the last one makes", () => {
  const earlier = followAttempts();
  const first = find({ source: { a: "1", b: "2", c: "3" }, target: { old: "0", gone: "0" } });
  earlier.begin({ target: first.localTree.entries, plan: first.plan });
  expect(earlier.made).toEqual([]);
  // `a` had arrived and `gone` was removed when the link was lost; `c` is wanted no more.
  const second = find({ source: { a: "1", b: "2" }, target: { old: "0", a: "1" } });
  earlier.begin({ target: second.localTree.entries, plan: second.plan });
  const told = [...earlier.made, ...second.plan.changes].map(
    ({ action, entry }) => `${action} ${entry.path}`,
  );
  expect(told).toEqual(["create a", "remove gone", "create b", "remove old"]);
});

const nothingSent = { failed: [], sent: new Map<string, string>() };

test("nothing below a folder is removed where the source has something else in its place", () => {
  const base = contents({ x: "/", "x/one": "in" });
  const { plan } = find({
    source: { x: "now a file" },
    target: { x: "/", "x/mine": "m", "x/one": "in" },
    base,
  });
  expect(plan.clashes.map(({ path }) => path)).toEqual(["x"]);
  expect(plan.changes).toEqual([]);
});

test("what an ended run had brought is no change of the target, whatever became of the source", () => {
  const state = stateOf({ base: contents({ a: "0", b: "0" }), coming: contents({ a: "1", b: "1", c: "1" }) });
  const entries = treeOf({ a: "1", b: "mine", c: "1" });
  const base = baseFor({ identity: "here", entries }, { state, isPush: false });
  expect(base).toEqual(contents({ a: "1", b: "0", c: "1" }));
  const source = treeOf({ a: "2", b: "2", c: "2" });
  const plan = planSync({ source, target: entries, base, unread: new Set(), deletes: false });
  expect(plan.changes.map(({ action, entry }) => `${action} ${entry.path}`)).toEqual([
    "change a",
    "change c",
  ]);
  expect(plan.clashes.map(({ path }) => path)).toEqual(["b"]);
});

test("in another target folder nothing was synced yet", () => {
  const state = stateOf({ base: contents({ a: "1" }) });
  expect(baseFor({ identity: "new", entries: new Map() }, { state, isPush: false })).toEqual(new Map());
  expect(baseFor({ identity: "there", entries: new Map() }, { state, isPush: true }).size).toBe(1);
});

test("what was sent is remembered, not what was planned", () => {
  const found = find({ source: { a: "v1", b: "v1" }, target: {} });
  const sent = new Map([
    ["a", "v2"],
    ["b", "v1"],
  ]);
  expect(nextBase(found, { failed: [], sent })).toEqual(contents({ a: "v2", b: "v1" }));
});

test("what could not be read on one side is not taken for synced", () => {
  const found = find({ source: { b: "SRC", "d/e": "1" }, target: {}, unread: ["b", "d"] });
  expect(nextBase(found, nothingSent)).toEqual(new Map());
});

test("what neither side has is forgotten, but not what is left out", () => {
  const base = contents({ gone: "1", "x.log": "1", kept: "1" });
  const found = find({ source: { kept: "1" }, target: { kept: "1" }, base, exclude: ["*.log"] });
  expect(nextBase(found, nothingSent)).toEqual(contents({ "x.log": "1", kept: "1" }));
});
