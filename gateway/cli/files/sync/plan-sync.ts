import { contentOf, type SyncEntry, type SyncTree } from "./sync-entry.ts";

/** What a plan is made of. */
export interface PlanInput {
  readonly source: SyncTree;
  readonly target: SyncTree;
  /** The content of each path that both had when they were last synced, or that a sync had brought that ended early. */
  readonly base: ReadonlyMap<string, string>;
  /** Paths that could not be read on one side: nothing at or below them is touched. */
  readonly unread: ReadonlySet<string>;
  /** Paths of the target that are left out: they stay, and so does each folder that they lie in. None by default. */
  readonly leftOut?: Iterable<string>;
  /** Remove at the target what the source has not. */
  readonly deletes: boolean;
  /** What the target has otherwise is replaced, whoever changed it. */
  readonly overwrites?: boolean;
}

/** Something that is to be done at the target. */
export interface Change {
  readonly action: "create" | "change" | "mode" | "remove";
  /** As it is to be; for a removal as it is. */
  readonly entry: SyncEntry;
  /** What stands there now. */
  readonly standing?: SyncEntry;
  /** Of a removal: it makes room for something of another kind, which is made after it. */
  readonly makesRoom?: true;
}

/** A path that both sides have changed: it is left alone. */
export interface Clash {
  readonly path: string;
  /** The content at each side: a digest, a link's target, `folder`, or `absent`. */
  readonly source: string;
  readonly target: string;
  /** Set where the sides differ in kind: whether `--delete` would put the one in the place of the other. */
  readonly kinds?: { readonly wouldDelete: boolean };
}

/** What a sync does. */
export interface SyncPlan {
  /** What makes room, then what is made, in order of the paths, then what is removed. */
  readonly changes: readonly Change[];
  readonly clashes: readonly Clash[];
  /** Paths that only the target has changed: they are left as they are. */
  readonly kept: readonly string[];
  /** Files that are the same on both sides, and their bytes. */
  readonly sameFiles: number;
  readonly sameBytes: number;
}

/** Compares two trees, and each with what both were at the last sync. */
export function planSync(input: PlanInput): SyncPlan {
  const changes: Change[] = [];
  const clashes: Clash[] = [];
  const kept: string[] = [];
  let sameFiles = 0;
  let sameBytes = 0;
  // Folders that cannot be made, as something else stands there: nothing comes into them.
  const barred = new Set<string>();
  // What goes as a whole, since something of another kind takes its place.
  const replaced = new Set<string>();
  const room = createRoom(input);
  for (const [path, entry] of input.source) {
    if (isAtOrBelow(path, input.unread) || isAtOrBelow(path, barred)) continue;
    const standing = input.target.get(path);
    if (standing && standing.kind !== entry.kind) {
      const isUntouched = room.isUntouched(standing);
      if (input.deletes && isUntouched) {
        replaced.add(path);
        changes.push({ action: "create", entry });
        continue;
      }
      if (entry.kind === "folder") barred.add(path);
      clashes.push({ ...toClash(path, entry, standing), kinds: { wouldDelete: isUntouched } });
      continue;
    }
    const verdict = judge(entry, standing, input);
    if (verdict === "clash") clashes.push(toClash(path, entry, standing));
    else if (verdict === "kept") kept.push(path);
    else if (verdict !== "same") changes.push({ action: verdict, entry, ...(standing ? { standing } : {}) });
    if (verdict !== "same" || entry.kind !== "file") continue;
    sameFiles += 1;
    sameBytes += entry.sizeBytes;
  }
  const removals = input.deletes ? planRemovals(input, { clashes, replaced }) : [];
  const [first, last] = [
    removals.filter(({ makesRoom }) => makesRoom),
    removals.filter(({ makesRoom }) => !makesRoom),
  ];
  return { changes: [...first, ...changes, ...last], clashes, kept, sameFiles, sameBytes };
}

/** Tells what of the target may go for something of another kind. */
interface Room {
  /**
   * Whether an entry, with all that is in it, is as the last sync has left it: also what is new, what could not be read and
   * what is left out is somebody's.
   */
  isUntouched(standing: SyncEntry): boolean;
}

function createRoom({ target, base, unread, leftOut = [] }: PlanInput): Room {
  let touched: Set<string> | undefined;
  const findTouched = (): Set<string> => {
    const found = new Set<string>();
    const add = (path: string): void => {
      for (let at = path; at !== "" && !found.has(at); at = parentOf(at)) found.add(at);
    };
    for (const [path, entry] of target) if (base.get(path) !== contentOf(entry)) add(path);
    for (const path of unread) add(path);
    for (const path of leftOut) add(path);
    return found;
  };
  return {
    isUntouched: ({ path }) => {
      touched ??= findTouched();
      return !touched.has(path);
    },
  };
}

function judge(
  entry: SyncEntry,
  standing: SyncEntry | undefined,
  { base, overwrites }: PlanInput,
): "create" | "change" | "mode" | "same" | "clash" | "kept" {
  if (!standing) return "create";
  const [wanted, found] = [contentOf(entry), contentOf(standing)];
  if (wanted === found) return hasMode(entry, standing) ? "same" : "mode";
  const known = base.get(entry.path);
  if (overwrites === true || known === found) return "change";
  return known === wanted ? "kept" : "clash";
}

/** Folders keep the mode they have: what is in them is made with what its owner may do. */
function hasMode(a: SyncEntry, b: SyncEntry): boolean {
  return a.kind !== "file" || (a.mode & 0o777) === (b.mode & 0o777);
}

interface Judged {
  readonly clashes: Clash[];
  readonly replaced: ReadonlySet<string>;
}

function planRemovals({ source, target, base, unread }: PlanInput, { clashes, replaced }: Judged): Change[] {
  const removals: Change[] = [];
  const stays = new Set<string>();
  // Where a folder stands on one side and something else on the other, all that is in it is left as well.
  const left = new Set(clashes.map(({ path }) => path));
  for (const [path, entry] of [...target].toReversed()) {
    if (isAtOrBelow(path, replaced)) {
      removals.push({ action: "remove", entry, standing: entry, makesRoom: true });
      continue;
    }
    if (source.has(path) || stays.has(path)) continue;
    if (isAtOrBelow(path, unread) || isAtOrBelow(path, left)) continue;
    const known = base.get(path);
    // It was removed at the source, and changed here since: both versions are left as they are.
    if (entry.kind !== "folder" && known !== undefined && known !== contentOf(entry)) {
      clashes.push(toClash(path, undefined, entry));
      for (let above = parentOf(path); above !== ""; above = parentOf(above)) stays.add(above);
    } else removals.push({ action: "remove", entry, standing: entry });
  }
  return removals;
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** Whether one of `paths` is this one or leads to it. */
export function isAtOrBelow(path: string, paths: ReadonlySet<string>): boolean {
  if (paths.size === 0) return false;
  for (let at = path; at !== ""; at = parentOf(at)) if (paths.has(at)) return true;
  return paths.has("");
}

function toClash(path: string, source: SyncEntry | undefined, target: SyncEntry | undefined): Clash {
  return { path, source: sayContent(source), target: sayContent(target) };
}

function sayContent(entry: SyncEntry | undefined): string {
  if (!entry) return "absent";
  return entry.kind === "folder" ? "folder" : entry.content;
}
