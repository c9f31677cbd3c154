import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { appendPath, parentPath } from "../../shared/names/workspace-path.ts";
import type { Known, KnownFolder } from "./known-tree.ts";
import type { TreeChange } from "./scan-tree.ts";
import type { Said, Shown } from "./watch-log.ts";

/** What happened to one entry, as a watch says it. */
export type EntrySaid = Extract<Said, { readonly path: WorkspacePath }> & {
  /** As it is now, for who has to read it. */
  readonly known?: Known;
  /** As it was, for `changed`. */
  readonly before?: Known;
};

/**
 * Differences of one scan as events, in the order of `orderOf` (the kernel's, where it told), then by their change time.
 * What lies below a removed folder is removed too; what went and came in one scan was moved. A folder comes before what
 * is in it, and goes after it.
 */
export function toEvents(
  changes: readonly TreeChange[],
  orderOf: (path: WorkspacePath) => number | undefined,
): readonly EntrySaid[] {
  const gone = new Map<string, TreeChange>();
  const removed = changes.filter(({ kind }) => kind === "removed").flatMap((change) => [...expand(change)]);
  for (const change of removed) {
    const key = keyOf(change.known);
    if (key !== undefined) gone.set(key, change);
  }
  const come = changes.filter(({ kind }) => kind !== "removed");
  const occupied = new Set(come.map(({ path }) => path));
  const moved = new Map<TreeChange, TreeChange>();
  const taken = new Set<TreeChange>();
  for (const change of come) {
    const key = keyOf(change.known);
    const from = key === undefined ? undefined : gone.get(key);
    // Where something stands again nothing went away from: its inode may have been given to another thing.
    if (!from || taken.has(from) || occupied.has(from.path)) continue;
    // One that only changed did not come from elsewhere.
    if (change.kind === "changed" && idOf(change.before) === idOf(change.known)) continue;
    moved.set(change, from);
    taken.add(from);
  }
  const left = removed.filter((change) => !taken.has(change));
  return sort([...left, ...come], orderOf).map((change) => toSaid(change, moved.get(change)));
}

/** A removal with all that went along, what is below first. */
function* expand(change: TreeChange): Generator<TreeChange> {
  const { known, path } = change;
  if (known.kind === "folder") yield* below(known, path);
  yield change;
}

function* below(folder: KnownFolder, path: WorkspacePath): Generator<TreeChange> {
  for (const [name, known] of folder.entries) {
    yield* expand({ kind: "removed", path: appendPath(path, name as WorkspacePath), known });
  }
}

function idOf(known: Known | undefined): string {
  return known === undefined || known.kind === "problem" ? "" : known.id;
}

/** What the same thing has under another name. An inode alone may be another file's by now. */
function keyOf(known: Known): string | undefined {
  if (known.kind === "problem" || known.id === "") return undefined;
  if (known.kind === "folder") return `folder ${known.id}`;
  const size = known.kind === "file" ? known.sizeBytes : known.target;
  return `${known.kind} ${known.id} ${known.mtimeNs} ${size}`;
}

function sort(
  changes: readonly TreeChange[],
  orderOf: (path: WorkspacePath) => number | undefined,
): readonly TreeChange[] {
  const timed = changes.map((change, index) => ({
    change,
    index,
    order: orderOf(change.path) ?? Number.MAX_SAFE_INTEGER,
    time: "ctimeNs" in change.known ? change.known.ctimeNs : 0n,
  }));
  timed.sort((a, b) => a.order - b.order || compare(a.time, b.time) || a.index - b.index);
  const created = new Map<WorkspacePath, TreeChange>();
  for (const change of changes) if (change.kind === "created") created.set(change.path, change);
  const sorted = new Set<TreeChange>();
  const add = (change: TreeChange): void => {
    if (sorted.has(change)) return;
    const parent = change.kind === "removed" ? undefined : parentPath(change.path);
    const above = parent === undefined ? undefined : created.get(parent);
    if (above) add(above);
    sorted.add(change);
  };
  // What stood at a path goes before what stands there now.
  for (const { change } of timed) if (change.kind === "removed" && created.has(change.path)) add(change);
  for (const { change } of timed) add(change);
  return [...sorted];
}

function compare(a: bigint, b: bigint): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function toSaid({ kind, path, known, before }: TreeChange, from: TreeChange | undefined): EntrySaid {
  if (kind === "removed") return { kind, path };
  const shown = show(known);
  if (from) return { kind: "moved", path, from: from.path, shown, known };
  return { kind, path, shown, known, ...(before ? { before } : {}) };
}

/** An entry as an event shows it: of a folder only what it is now. */
function show(known: Known): Shown {
  if (known.kind !== "folder") return known;
  return { kind: "folder", mode: known.mode, mtimeNs: known.mtimeNs };
}
