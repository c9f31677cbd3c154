import type { TreeProblem } from "../../../../shared/tree/tree-part.ts";
import type { LocalPlace } from "../local-place.ts";
import type { Applied } from "./apply-plan.ts";
import { type Exclusion, isLeftOut, knowArrived, type LocalTree, type RemoteTree } from "./list-trees.ts";
import { isAtOrBelow, type SyncPlan } from "./plan-sync.ts";
import { contentOf, type SyncTree } from "./sync-entry.ts";
import type { SyncState } from "./sync-state.ts";

/** Both sides as they were found. */
export interface Found {
  /** What is remembered of the last sync. */
  readonly state: SyncState | undefined;
  readonly isPush: boolean;
  /** What is left out now. */
  readonly exclusion: Exclusion;
  readonly remoteTree: RemoteTree;
  readonly localTree: LocalTree;
  /** What both sides had at the last sync. */
  readonly base: ReadonlyMap<string, string>;
  /** Paths that one side could not read. */
  readonly unread: ReadonlySet<string>;
  /** What the target's volume would make one of two names: left alone. */
  readonly twins: readonly TreeProblem[];
  readonly plan: SyncPlan;
}

/**
 * What both sides had at the last sync: the content of each path, also of what a run has brought to the target that ended
 * before it could say so. Nothing where the target is another folder than then.
 */
export function baseFor(
  target: { readonly identity: string | undefined; readonly entries: SyncTree },
  { state, isPush }: { readonly state: SyncState | undefined; readonly isPush: boolean },
): ReadonlyMap<string, string> {
  if (!state) return new Map();
  const before = isPush ? state.remoteIdentity : state.localIdentity;
  // With another folder than the last time nothing was synced yet.
  if (before !== "" && before !== target.identity) return new Map();
  const base = new Map(state.base);
  for (const [path, content] of state.coming) {
    const standing = target.entries.get(path);
    if (standing && contentOf(standing) === content) base.set(path, content);
  }
  return base;
}

/** The content that a plan is about to bring to the target. */
export function comingOf({ changes }: SyncPlan): Map<string, string> {
  const made = changes.filter(({ action }) => action === "create" || action === "change");
  return new Map(made.map(({ entry }) => [entry.path, contentOf(entry)]));
}

/** What is remembered while changes are made. */
export function stateBefore({ remoteTree, localTree, base }: Found): Omit<SyncState, "coming"> {
  return {
    remoteIdentity: remoteTree.identity ?? "",
    localIdentity: localTree.identity ?? "",
    remoteDigest: "",
    remoteEntries: [],
    base,
    localFiles: localTree.files,
  };
}

/** Whether all that would be remembered is: nothing was done, and nothing was read that was not known. */
export function isRemembered({ state, remoteTree, localTree, plan }: Found): boolean {
  if (!state || state.coming.size > 0 || plan.changes.length > 0 || state.remoteDigest !== remoteTree.digest)
    return false;
  if (state.localIdentity !== localTree.identity || state.remoteIdentity !== remoteTree.identity)
    return false;
  for (const [path, file] of localTree.files) if (state.localFiles.get(path) !== file) return false;
  const left = new Set([...plan.clashes.map(({ path }) => path), ...plan.kept]);
  for (const [path, entry] of remoteTree.entries) {
    const isBoth = localTree.entries.has(path) && !isAtOrBelow(path, left);
    if (isBoth && state.base.get(path) !== contentOf(entry)) return false;
  }
  return true;
}

/** How the changes of a plan went. */
export interface Done {
  readonly applied: Applied;
  readonly folder: LocalPlace;
  readonly signal: AbortSignal;
}

/** What is remembered for the next run: what both sides have now. */
export async function stateAfter(found: Found, { applied, folder, signal }: Done): Promise<SyncState> {
  const { isPush, remoteTree, localTree, plan } = found;
  const failed = new Set(applied.failed.map(({ path }) => path));
  const made = plan.changes.filter(({ action, entry }) => action !== "remove" && !failed.has(entry.path));
  const arrived = new Map(
    made.map(({ entry }) => [
      entry.path,
      { ...entry, content: applied.sent.get(entry.path) ?? entry.content },
    ]),
  );
  const localFiles = new Map(localTree.files);
  if (!isPush && arrived.size > 0) {
    for (const [path, file] of await knowArrived(folder.root, arrived, signal)) localFiles.set(path, file);
  }
  const isRemoteChanged = isPush && plan.changes.length > 0;
  return {
    remoteIdentity: remoteTree.identity ?? "",
    localIdentity: localTree.identity ?? "",
    remoteDigest: isRemoteChanged ? "" : remoteTree.digest,
    remoteEntries: isRemoteChanged ? [] : remoteTree.all,
    base: nextBase(found, applied),
    localFiles,
    coming: new Map(),
  };
}

/** The content that both sides have now: of what was left, failed or could not be read, what they had before. */
export function nextBase(found: Found, applied: Pick<Applied, "failed" | "sent">): Map<string, string> {
  const { base: before, remoteTree, localTree, plan, unread, exclusion, isPush } = found;
  const failed = new Set(applied.failed.map(({ path }) => path));
  const left = new Set([...plan.clashes.map(({ path }) => path), ...plan.kept]);
  const [remote, local] = [remoteTree.entries, localTree.entries];
  const base = new Map(before);
  for (const path of before.keys()) {
    const isKnown = remote.has(path) || local.has(path) || isAtOrBelow(path, unread);
    if (!isKnown && !isLeftOut(path, exclusion)) base.delete(path);
  }
  for (const { action, entry } of plan.changes)
    if (action === "remove" && !failed.has(entry.path)) base.delete(entry.path);
  for (const [path, entry] of isPush ? local : remote) {
    if (isAtOrBelow(path, left) || failed.has(path) || isAtOrBelow(path, unread)) continue;
    const digest = applied.sent.get(path);
    base.set(path, digest === undefined ? contentOf(entry) : contentOf({ kind: "file", content: digest }));
  }
  return base;
}
