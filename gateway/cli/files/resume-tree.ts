import type { Source } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { NameFolding } from "../../../shared/names/folded-name.ts";
import { appendPath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import type { TreeProblem } from "../../../shared/tree/tree-part.ts";
import { differs } from "../../../shared/tree/tree-rules.ts";
import { askExport } from "./ask-export.ts";
import type { LocalPlace } from "./local-place.ts";
import type { Remote } from "./remote.ts";
import { applyPlan } from "./sync/apply-plan.ts";
import { leaveTwins } from "./sync/leave-twins.ts";
import { createExclusion, listLocal, listRemote, type FoundTree } from "./sync/list-trees.ts";
import { planSync } from "./sync/plan-sync.ts";
import type { SyncEntry } from "./sync/sync-entry.ts";
import { pullSides, pushSides } from "./sync/sync-sides.ts";
import type { Transfer } from "./transfer.ts";

/** A tree that was cut off. */
export interface CutTree {
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly place: Omit<LocalPlace, typeof Symbol.asyncDispose>;
  /** What stands there and differs is replaced; else it is a problem. */
  readonly overwrites: boolean;
  /** The target is this transfer's alone: what the source has no more is removed. */
  readonly isOwn?: boolean;
  /** The first problem ends it. */
  readonly strict: boolean;
}

/** A tree that is whole now. */
export interface ResumedTree {
  readonly counts: Readonly<Record<"files" | "folders" | "links" | "bytes", number>>;
  readonly problems: readonly TreeProblem[];
  readonly source: Source | undefined;
}

/** Fetches what of a tree is not here yet, by comparing both sides. */
export async function fetchRest(cut: CutTree): Promise<ResumedTree> {
  const { transfer, remote, place } = cut;
  const source = await listRemote(transfer, remote, { state: undefined, exclusion: createExclusion([]) });
  const target = await listHere(cut);
  const ends = { transfer, remote, root: place.root, at: place.path, shown: place.shown };
  const problems = await carryRest(cut, {
    source,
    target,
    sides: pullSides(ends),
    folding: place.root.folding,
  });
  const folders = [...source.entries.values()].filter(({ kind }) => kind === "folder");
  await place.root.setFolderTimes(
    folders.map(({ path, modifiedNs }) => ({
      path: appendPath(place.path, path as WorkspacePath),
      mtimeNs: modifiedNs,
    })),
  );
  return { counts: count(source, problems), problems, source: source.source };
}

/** Stores what of a tree is not on the node yet, by comparing both sides. */
export async function storeRest(cut: CutTree): Promise<ResumedTree> {
  const { transfer, remote, place } = cut;
  const target = await listRemote(transfer, remote, { state: undefined, exclusion: createExclusion([]) });
  const source = await listHere(cut);
  const ends = { transfer, remote, root: place.root, at: place.path, shown: place.shown };
  const { folding, acceptsPacked } = await askExport(transfer, remote);
  const problems = await carryRest(cut, {
    source,
    target,
    sides: pushSides({ ...ends, acceptsPacked }),
    folding,
  });
  return { counts: count(source, problems), problems, source: target.source };
}

async function listHere({ transfer, place }: CutTree): Promise<FoundTree> {
  return await listLocal(place.root, {
    path: place.path,
    exclusion: createExclusion([]),
    known: new Map(),
    nowMs: 0,
    signal: transfer.signal,
  });
}

interface Rest {
  readonly source: FoundTree;
  readonly target: FoundTree;
  readonly sides: ReturnType<typeof pullSides>;
  /** What the target's volume does not tell apart. */
  readonly folding: NameFolding;
}

async function carryRest(cut: CutTree, { sides, folding, ...trees }: Rest): Promise<readonly TreeProblem[]> {
  const { source, target } = leaveTwins(trees, folding);
  const plan = planSync({
    source: source.entries,
    target: target.entries,
    base: new Map(),
    unread: new Set(source.problems.map(({ path }) => path)),
    deletes: cut.isOwn === true,
    overwrites: cut.overwrites,
  });
  const clashes = plan.clashes.map(({ path }) => ({ path, fault: differs(path as WorkspacePath) }));
  const early = [...source.problems, ...clashes];
  requireNone(cut, early);
  const { failed } = await applyPlan(plan.changes, target.entries, sides);
  requireNone(cut, failed);
  return [...early, ...failed];
}

function requireNone({ strict }: CutTree, problems: readonly TreeProblem[]): void {
  const [first] = problems;
  if (strict && first) throw first.fault.with({ details: { path: first.path } });
}

function count(source: FoundTree, problems: readonly TreeProblem[]): ResumedTree["counts"] {
  const failed = new Set(problems.map(({ path }) => path));
  const counts = { files: 0, folders: 0, links: 0, bytes: 0 };
  for (const entry of source.entries.values()) if (!failed.has(entry.path)) add(counts, entry);
  return counts;
}

function add(counts: Record<keyof ResumedTree["counts"], number>, { kind, sizeBytes }: SyncEntry): void {
  counts[`${kind}s`] += 1;
  counts.bytes += sizeBytes;
}
