import { expect, test } from "vitest";
import { followAttempts } from "../../../gateway/cli/files/sync/earlier-changes.ts";
import { createExclusion } from "../../../gateway/cli/files/sync/list-trees.ts";
import { planSync } from "../../../gateway/cli/files/sync/plan-sync.ts";
import { baseFor, type Found, nextBase } from "../../../gateway/cli/files/sync/remember.ts";
import { contentOf, type SyncEntry } from "../../../gateway/cli/files/sync/sync-entry.ts";
import type { SyncState } from "../../../gateway/cli/files/sync/sync-state.ts";
import { Fault } from "../../../shared/fault/fault.ts";

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
  /** What of the target is left out. */
  readonly leftOut?: readonly string[];
}

/** A pull of these trees, planned with `--delete`. */
function find({ source, target, base = new Map(), unread = [], exclude = [], leftOut = [] }: Sides): Found {
  const missing = new Set(unread);
  const [remote, local] = [treeOf(source), treeOf(target)];
  return {
    state: undefined,
    isPush: false,
    exclusion: createExclusion(exclude),
    remoteTree: {
      identity: "there",
      digest: "",
      entries: remote,
      leftOut: [],
      all: [],
      problems: [],
      source: undefined,
    },
    localTree: { identity: "here", entries: local, leftOut, files: new Map(), problems: [] },
    base,
    unread: missing,
    twins: [],
    plan: planSync({ source: remote, target: local, base, unread: missing, leftOut, deletes: true }),
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

const told = ({ plan }: Found): readonly string[] =>
  plan.changes.map(
    ({ action, entry, makesRoom }) => `${makesRoom ? "make room: " : ""}${action} ${entry.path}`,
  );

test("a folder that became a file, and a file that became a folder, are replaced where nothing of them was changed", () => {
  const target = { a: "old", x: "/", "x/one": "1", "x/two": "/", "x/two/three": "3", y: "kept" };
  const source = { a: "/", "a/in": "i", x: "file", y: "kept" };
  const found = find({ source, target, base: contents(target) });
  expect(found.plan.clashes).toEqual([]);
  expect(told(found)).toEqual([
    "make room: remove x/two/three",
    "make room: remove x/two",
    "make room: remove x/one",
    "make room: remove x",
    "make room: remove a",
    "create a",
    "create a/in",
    "create x",
  ]);
  expect(nextBase(found, nothingSent)).toEqual(contents(source));
  const without = planSync({
    source: treeOf(source),
    target: treeOf(target),
    base: contents(target),
    unread: new Set(),
    deletes: false,
  });
  expect(without.changes).toEqual([]);
  expect(without.clashes.map(({ path, kinds }) => [path, kinds?.wouldDelete])).toEqual([
    ["a", true],
    ["x", true],
  ]);
  // What had to stay is remembered as it was.
  const failed = ["x", "x/one"].map((path) => ({ path, fault: new Fault("NOT_EMPTY", "it is not empty") }));
  const next = nextBase(found, { failed, sent: new Map() });
  expect([next.get("x"), next.get("x/one"), next.has("x/two")]).toEqual(["folder:", "file:1", false]);
});

test.each<[string, Partial<Sides>]>([
  ["a changed file", { target: { x: "/", "x/one": "mine" } }],
  ["a new file", { target: { x: "/", "x/one": "1", "x/mine": "m" } }],
  ["a new folder", { target: { x: "/", "x/mine": "/", "x/one": "1" } }],
  ["what could not be read", { unread: ["x/secret"] }],
  ["what is left out", { leftOut: ["x/node_modules"] }],
  ["what no sync has brought", { base: new Map() }],
])("%s in a folder keeps the file away that would take its place", (_, more) => {
  const target = { x: "/", "x/one": "1" };
  const found = find({ source: { x: "file" }, target, base: contents(target), ...more });
  expect(found.plan.changes).toEqual([]);
  expect(found.plan.clashes).toMatchObject([{ path: "x", kinds: { wouldDelete: false } }]);
});

test("a file that was changed is no room for a folder", () => {
  const found = find({
    source: { x: "/", "x/in": "1" },
    target: { x: "mine" },
    base: contents({ x: "old" }),
  });
  expect(found.plan.changes).toEqual([]);
  expect(found.plan.clashes.map(({ path }) => path)).toEqual(["x"]);
});

test("what made room in an attempt that was cut off is told of once, beside what came in its place", () => {
  const earlier = followAttempts();
  const target = { x: "/", "x/one": "1" };
  const first = find({ source: { x: "file" }, target, base: contents(target) });
  earlier.begin({ target: first.localTree.entries, plan: first.plan });
  const second = find({ source: { x: "file" }, target: {}, base: contents(target) });
  earlier.begin({ target: second.localTree.entries, plan: second.plan });
  const changes = [...earlier.made, ...second.plan.changes];
  expect(changes.map(({ action, entry }) => `${action} ${entry.path}`)).toEqual([
    "remove x/one",
    "remove x",
    "create x",
  ]);
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
