import { type Fault, isFault } from "../../../../shared/fault/fault.ts";
import { pathAndParents, type WorkspacePath } from "../../../../shared/names/workspace-path.ts";
import type { TreePart, TreeProblem } from "../../../../shared/tree/tree-part.ts";
import { resumableFromBytes } from "../part-key.ts";
import { type Change, isAtOrBelow } from "./plan-sync.ts";
import type { SyncEntry, SyncTree } from "./sync-entry.ts";
import { bareParts, tellSent, withConditions, type Bare } from "./sync-parts.ts";

/** Where changes are made, and where their content comes from. */
export interface SyncSides {
  /** The contents of small files of the source, as the messages of a tree. */
  contents(paths: readonly string[]): AsyncIterable<TreePart>;
  /** Stores a tree's messages at the target; gives what failed. */
  store(parts: AsyncIterable<TreePart>): Promise<readonly TreeProblem[]>;
  /** Carries one large file; goes on where an earlier try was cut off. Gives the digest of what was sent. */
  carry(change: Change): Promise<string>;
  /** Removes a file or link that is still as it was, or a folder that is empty. */
  remove(entry: SyncEntry): Promise<void>;
}

/** How making the changes went. */
export interface Applied {
  readonly failed: readonly TreeProblem[];
  /** Files whose content the target had already, under another name. */
  readonly copiedFiles: number;
  readonly copiedBytes: number;
  readonly sentFiles: number;
  /** Digests of the files that were sent, by path: a source that was changed meanwhile was sent as it was then. */
  readonly sent: ReadonlyMap<string, string>;
}

/** Files of one question, and bytes of their paths. */
const maxAskedFiles = 4_000;
const maxAskedBytes = 512 * 1024;

/**
 * Makes the changes of a plan: content that the target has already is copied there, each other one travels once. What makes
 * room goes once its content was copied to where it is wanted; what cannot go keeps its place.
 */
export async function applyPlan(
  changes: readonly Change[],
  target: SyncTree,
  sides: SyncSides,
): Promise<Applied> {
  const applying = new Applying(sides);
  const making = changes.filter(({ action }) => action !== "remove");
  const going = changes.filter(({ makesRoom }) => makesRoom);
  const gone = new Set(going.map(({ entry }) => entry.path));
  const waits = ({ entry }: Change): boolean => isAtOrBelow(entry.path, gone);
  const free = making.filter((change) => !waits(change));
  const copied = await applying.copies(free, target.values());
  const stays = new Set<string>();
  for (const { entry } of going) if (!(await applying.makeRoom(entry))) stays.add(entry.path);
  const roomy = making.filter(waits).filter(({ entry }) => !applying.isBarred(entry.path, stays));
  const standing = going.length === 0 ? [] : [...target.values()].filter(({ path }) => !gone.has(path));
  for (const change of await applying.copies(roomy, standing)) copied.add(change);
  const first = new Map<string, Change>();
  const later: Change[] = [];
  for (const change of [...free, ...roomy]) {
    if (change.entry.kind !== "file" || copied.has(change)) continue;
    if (first.has(change.entry.content)) later.push(change);
    else first.set(change.entry.content, change);
  }
  await applying.contents([...first.values()]);
  const again = later.map((change): Bare => {
    const copyFrom = first.get(change.entry.content)?.entry.path;
    return copyFrom === undefined ? { change } : { change, copyFrom };
  });
  const uncopied = await applying.bare(again);
  await applying.contents([...uncopied]);
  for (const { action, makesRoom, entry } of changes)
    if (action === "remove" && !makesRoom) await applying.remove(entry);
  return applying.result;
}

function byContent(entries: Iterable<SyncEntry>): Map<string, string> {
  const found = new Map<string, string>();
  for (const { kind, content, path } of entries) if (kind === "file") found.set(content, path);
  return found;
}

class Applying {
  readonly #sides: SyncSides;
  readonly #failed = new Map<string, TreeProblem>();
  #copiedFiles = 0;
  #copiedBytes = 0;
  #sentFiles = 0;
  readonly #sent = new Map<string, string>();

  constructor(sides: SyncSides) {
    this.#sides = sides;
  }

  get result(): Applied {
    return {
      failed: [...this.#failed.values()],
      copiedFiles: this.#copiedFiles,
      copiedBytes: this.#copiedBytes,
      sentFiles: this.#sentFiles,
      sent: this.#sent,
    };
  }

  /** Makes folders, links, and files whose content stands at the target already; gives the files. */
  async copies(changes: readonly Change[], standing: Iterable<SyncEntry>): Promise<Set<Change>> {
    const from = byContent(standing);
    const bares = changes.flatMap((change): Bare[] => {
      if (change.entry.kind !== "file") return [{ change }];
      const copyFrom = from.get(change.entry.content);
      return copyFrom === undefined ? [] : [{ change, copyFrom }];
    });
    // What could not be copied, since it is another by now, travels as the rest.
    const lost = await this.bare(bares);
    const copies = bares.filter(({ copyFrom, change }) => copyFrom !== undefined && !lost.has(change));
    return new Set(copies.map(({ change }) => change));
  }

  /** Makes what needs no content; gives the copies whose source was not what it should be. */
  async bare(bares: readonly Bare[]): Promise<Set<Change>> {
    const lost = new Set<Change>();
    if (bares.length === 0) return lost;
    const changes = new Map(bares.map((bare) => [bare.change.entry.path, bare]));
    for (const problem of await this.#sides.store(iterate(bareParts(bares)))) {
      const bare = changes.get(problem.path);
      changes.delete(problem.path);
      if (bare?.copyFrom !== undefined && isSourceLost(problem.fault)) lost.add(bare.change);
      else this.#fail(problem);
    }
    for (const { change, copyFrom } of changes.values()) {
      if (copyFrom === undefined) continue;
      this.#copiedFiles += 1;
      this.#copiedBytes += change.entry.sizeBytes;
    }
    return lost;
  }

  /** Carries files with their content. */
  async contents(changes: readonly Change[]): Promise<void> {
    const small = changes.filter(({ entry }) => entry.sizeBytes < resumableFromBytes);
    for (const group of inGroups(small)) {
      const byPath = new Map(group.map((change) => [change.entry.path, change]));
      const parts = this.#sides.contents([...byPath.keys()]);
      const problems = await this.#sides.store(tellSent(withConditions(parts, byPath), this.#sent));
      for (const problem of problems) this.#fail(problem);
      this.#sentFiles += group.length - problems.length;
    }
    for (const change of changes) {
      if (change.entry.sizeBytes < resumableFromBytes) continue;
      await this.#carry(change);
    }
  }

  async #carry(change: Change): Promise<void> {
    try {
      this.#sent.set(change.entry.path, await this.#sides.carry(change));
      this.#sentFiles += 1;
    } catch (error) {
      if (!isOwnFault(error)) throw error;
      this.#fail({ path: change.entry.path, fault: error });
    }
  }

  async remove(entry: SyncEntry): Promise<void> {
    const fault = await this.#removeOne(entry);
    // A folder that holds what is left out, or what came meanwhile, stays.
    if (!fault || (entry.kind === "folder" && fault.code === "NOT_EMPTY")) return;
    this.#fail({ path: entry.path, fault });
  }

  /** Removes what stands in the way of something; false, with its failure noted, where it could not. */
  async makeRoom(entry: SyncEntry): Promise<boolean> {
    const fault = await this.#removeOne(entry);
    if (fault) this.#fail({ path: entry.path, fault });
    return fault === undefined;
  }

  /** Whether a path lies at or below one of those that had to stay: then it has failed as that one has. */
  isBarred(path: string, stays: ReadonlySet<string>): boolean {
    const at = pathAndParents(path as WorkspacePath).find((one) => stays.has(one));
    const problem = at === undefined ? undefined : this.#failed.get(at);
    if (problem) this.#fail({ path, fault: problem.fault });
    return problem !== undefined;
  }

  async #removeOne(entry: SyncEntry): Promise<Fault | undefined> {
    try {
      await this.#sides.remove(entry);
      return undefined;
    } catch (error) {
      if (!isOwnFault(error)) throw error;
      return error.code === "NOT_FOUND" ? undefined : error;
    }
  }

  #fail(problem: TreeProblem): void {
    this.#failed.set(problem.path, problem);
  }
}

/** Whether a fault is about one entry: the rest can go on. */
function isOwnFault(error: unknown): error is Fault {
  if (!isFault(error)) return false;
  const ends = ["NODE_OFFLINE", "GATEWAY_UNREACHABLE", "WORKSPACE_ACCESS_UNAVAILABLE", "OUTCOME_UNKNOWN"];
  const isEnd = [...ends, "DEADLINE_EXCEEDED", "CANCELLED", "DISK_FULL", "UNAUTHENTICATED"].includes(
    error.code,
  );
  return !isEnd;
}

function isSourceLost({ code }: Fault): boolean {
  return ["INTEGRITY_FAILURE", "NOT_FOUND", "POLICY_DENIED", "TOO_LARGE", "INVALID_ARGUMENT"].includes(code);
}

function* inGroups(changes: readonly Change[]): Generator<readonly Change[]> {
  let group: Change[] = [];
  let bytes = 0;
  for (const change of changes) {
    group.push(change);
    bytes += Buffer.byteLength(change.entry.path);
    if (group.length < maxAskedFiles && bytes < maxAskedBytes) continue;
    yield group;
    group = [];
    bytes = 0;
  }
  if (group.length > 0) yield group;
}

async function* iterate<T>(items: Iterable<T>): AsyncGenerator<T, void> {
  yield* items;
}
