import { Fault, isFault } from "../../shared/fault/fault.ts";
import { isBeneath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import type { Delivery } from "../workspace/shared-watch.ts";
import type { Shown } from "../workspace/watch-log.ts";
import type { ManifestItem, WorkspaceManifest } from "../workspace/workspace-manifest.ts";

/** What a watched path stands for by now, entry by entry. */
export interface Retold {
  readonly kind: "created" | "removed";
  readonly path: WorkspacePath;
  readonly shown?: Shown;
}

/** What following a path stands on. */
export interface FollowedPathOptions {
  readonly workspace: Workspace;
  readonly manifest: WorkspaceManifest;
  /** The path as it was asked for. */
  readonly path: WorkspacePath;
  readonly signal: AbortSignal;
}

/** The path of one watch, through the links on its way: where one of them leads elsewhere, so does the watch. */
export class FollowedPath {
  readonly #options: FollowedPathOptions;
  #canonicalPath: WorkspacePath | undefined;
  #former: { readonly path: WorkspacePath; readonly untilTick: number } | undefined;

  private constructor(options: FollowedPathOptions, canonicalPath: WorkspacePath) {
    this.#options = options;
    this.#canonicalPath = canonicalPath;
  }

  /** Follows a path that leads to something now; faults as `stat`. */
  static async open(options: FollowedPathOptions): Promise<FollowedPath> {
    const { canonicalPath } = await options.workspace.root.stat(options.path);
    return new FollowedPath(options, canonicalPath);
  }

  /** Where it leads; undefined while that is nothing, or nothing that may be read. */
  get canonicalPath(): WorkspacePath | undefined {
    return this.#canonicalPath;
  }

  /** Whether an event is about what the path leads to, or led to when it happened. */
  concerns(delivery: Delivery): boolean {
    if (!("path" in delivery)) return true;
    const { path, from, tick } = delivery;
    const isIn = (folder: WorkspacePath | undefined): boolean =>
      folder !== undefined && (isBeneath(path, folder) || (from !== undefined && isBeneath(from, folder)));
    if (isIn(this.#canonicalPath)) return true;
    const former = this.#former;
    return (
      former !== undefined && tick <= former.untilTick && delivery.kind === "removed" && isIn(former.path)
    );
  }

  /** Whether after an event the path may lead elsewhere: it is about a link, or about a folder on the way. */
  mayLeadElsewhere(delivery: Delivery): boolean {
    if (!this.#options.workspace.settings.followSymlinks || !("path" in delivery)) return false;
    const at = this.#canonicalPath;
    if (at === undefined) return true;
    const isInside = delivery.path !== at && isBeneath(delivery.path, at);
    return !isInside && delivery.shown?.kind !== "file";
  }

  /**
   * Looks where the path leads now. Gives what is told of that: everything that it led to was removed, everything that it
   * leads to was created; nothing while it leads to the same. `lastTick` is that of the last event so far.
   */
  async lookAgain(lastTick: number): Promise<readonly Retold[]> {
    const { manifest, signal } = this.#options;
    const before = this.#canonicalPath;
    const now = await this.#resolve();
    if (now === before) return [];
    this.#canonicalPath = now;
    if (before !== undefined) this.#former = { path: before, untilTick: lastTick };
    const left = before === undefined ? [] : await manifest.pathsBelow(before, signal);
    const removed = left.map((path): Retold => ({ kind: "removed", path }));
    return [...removed, ...(now === undefined ? [] : await this.#standing(now))];
  }

  async #resolve(): Promise<WorkspacePath | undefined> {
    const { workspace, path, signal } = this.#options;
    try {
      return (await workspace.root.stat(path)).canonicalPath;
    } catch (error) {
      signal.throwIfAborted();
      if (!isFault(error)) throw error;
      return undefined;
    }
  }

  async #standing(path: WorkspacePath): Promise<readonly Retold[]> {
    const { manifest, signal } = this.#options;
    try {
      const found = await manifest.standing(path, signal);
      return found.map((one): Retold => ({ kind: "created", path: one.path, shown: toShown(one.state) }));
    } catch (error) {
      signal.throwIfAborted();
      if (!isFault(error)) throw error;
      // It is gone again, of which the next event tells.
      return [];
    }
  }
}

function toShown(state: ManifestItem["state"]): Shown {
  if (state instanceof Fault) return { kind: "problem", fault: state };
  if (state.kind !== "folder") return state;
  const { kind, mode, mtimeNs } = state;
  return { kind, mode, mtimeNs };
}
