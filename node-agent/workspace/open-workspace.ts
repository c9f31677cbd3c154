import { realpath } from "node:fs/promises";
import { sep } from "node:path";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { openRoot } from "../../shared/root/open-root.ts";
import type { RootHandle, RootHooks } from "../../shared/root/root-handle.ts";
import type { HomePlace } from "./expand-home.ts";
import type { ExportSettings } from "./export-settings.ts";
import { createFilePolicy, type FileDecision, type FileOperation, type FilePolicy } from "./file-policy.ts";
import { type GuardedRoot, guardRoot } from "./guarded-root.ts";

/** Limits of trees that this machine sets. */
export interface TreeLimits {
  readonly treeEntries: number;
  readonly treeDepth: number;
}

/** What `openWorkspace` takes besides the settings. */
export interface OpenWorkspaceOptions {
  /** All of this program's state: never exported, and closed where it lies in an export. */
  readonly homeDir: string;
  /** Tells this registration from earlier ones of the same name; only ever rises. */
  readonly epoch: number;
  readonly limits: TreeLimits;
  readonly hooks?: RootHooks;
}

/** An exported folder: the only door to its files. Whoever opened it disposes it. */
export interface Workspace extends AsyncDisposable {
  readonly settings: ExportSettings;
  readonly epoch: number;
  /** The folder under this machine's policy. */
  readonly root: GuardedRoot;
  readonly limits: TreeLimits;
  /** Aborts when the export ends; its reason is `WORKSPACE_ACCESS_UNAVAILABLE`. */
  readonly signal: AbortSignal;
  /** What this machine says of an operation. */
  judge(operation: FileOperation, path: WorkspacePath): FileDecision;
  /** Fails with what is wrong with the rules of other settings, and changes nothing. */
  check(settings: ExportSettings): void;
  /** Other permissions for the same folder, from the next operation on; a malformed glob changes nothing. */
  permit(settings: ExportSettings): void;
  /** Tells after each `permit`, with what could be read under the policy before; the caller disposes it. */
  onPermit(listener: (wasOpen: (path: WorkspacePath) => boolean) => void): Disposable;
}

/**
 * Opens a folder as a workspace. `/` is `INVALID_ARGUMENT`, a missing folder `NOT_FOUND`, a file `NOT_A_DIRECTORY`, one
 * that is this program's own state or lies in it `POLICY_DENIED`, a malformed glob `INVALID_ARGUMENT`.
 */
export async function openWorkspace(
  settings: ExportSettings,
  options: OpenWorkspaceOptions,
): Promise<Workspace> {
  const folder = await realFolder(settings);
  const closed = await findClosed(settings, folder, options.homeDir);
  const home = await findHome(settings, folder);
  const { followSymlinks, allowHardLinks, allowSymlinkTargets: trusted = [], containment } = settings;
  for (const { path } of trusted) await requireTrustable(settings, path, options.homeDir);
  const root = await openRoot(settings.dir, {
    followSymlinks,
    trusted,
    allowHardLinks,
    containment,
    sweep: settings.write.length > 0,
    ...(options.hooks ? { hooks: options.hooks } : {}),
  });
  try {
    return new OpenedWorkspace(settings, { ...options, root, closed, home });
  } catch (error) {
    await root[Symbol.asyncDispose]();
    throw error;
  }
}

/** The whole disk, and what holds this program's own state or lies in it, is nothing that links may lead into. */
async function requireTrustable({ name }: ExportSettings, path: string, homeDir: string): Promise<void> {
  const [folder, home] = await Promise.all([path, homeDir].map((one) => realpath(one).catch(() => one)));
  if (folder === undefined || home === undefined) return;
  if (folder === sep) {
    throw new Fault("INVALID_ARGUMENT", `allowSymlinkTargets of workspace ${name} names the whole disk`, {
      details: { field: "allowSymlinkTargets" },
      hint: "name the folder that is meant",
    });
  }
  const isApart = !`${home}${sep}`.startsWith(`${folder}${sep}`) && !folder.startsWith(`${home}${sep}`);
  if (isApart) return;
  throw new Fault(
    "POLICY_DENIED",
    `a folder in allowSymlinkTargets of workspace ${name} holds this program's own state`,
    { details: { rule: "own_state", side: "node" }, hint: "name another folder" },
  );
}

/** Both by their real paths: a home that is reached by another name is the same home. */
async function findHome({ userHome }: ExportSettings, root: string): Promise<HomePlace | undefined> {
  if (userHome === undefined) return undefined;
  const home = await realpath(userHome).catch(() => userHome);
  return { home, root, platform: toPathPlatform(process.platform) };
}

async function findClosed(
  settings: ExportSettings,
  folder: string,
  homeDir: string,
): Promise<readonly WorkspacePath[]> {
  if (folder === sep) {
    throw new Fault("INVALID_ARGUMENT", "the whole disk cannot be exported", {
      details: { field: "dir" },
      hint: "export the folder that is meant",
    });
  }
  const home = await realpath(homeDir).catch(() => homeDir);
  if (home === folder || folder.startsWith(`${home}${sep}`)) {
    throw new Fault(
      "POLICY_DENIED",
      `the folder of workspace ${settings.name} holds this program's own state`,
      {
        details: { rule: "own_state", side: "node" },
        hint: "export another folder",
      },
    );
  }
  if (!home.startsWith(`${folder}${sep}`)) return [];
  return [parseWorkspacePath(home.slice(folder.length + 1), { platform: toPathPlatform(process.platform) })];
}

async function realFolder(settings: ExportSettings): Promise<string> {
  try {
    return await realpath(settings.dir);
  } catch (error) {
    throw faultFromErrno(error, `the folder of workspace ${settings.name}`);
  }
}

interface WorkspaceParts extends OpenWorkspaceOptions {
  readonly root: RootHandle;
  readonly closed: readonly WorkspacePath[];
  readonly home: HomePlace | undefined;
}

class OpenedWorkspace implements Workspace {
  readonly epoch: number;
  readonly root: GuardedRoot;
  readonly limits: TreeLimits;
  readonly #parts: WorkspaceParts;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<(wasOpen: (path: WorkspacePath) => boolean) => void>();
  #settings: ExportSettings;
  #policy: FilePolicy;

  constructor(settings: ExportSettings, parts: WorkspaceParts) {
    this.epoch = parts.epoch;
    this.#parts = parts;
    this.#settings = settings;
    this.#policy = this.#compile(settings);
    this.limits = parts.limits;
    const { treeEntries, treeDepth } = parts.limits;
    this.root = guardRoot(parts.root, () => ({
      policy: this.#policy,
      maxFileBytes: this.#settings.maxFileBytes,
      maxEntries: treeEntries,
      maxDepth: treeDepth,
    }));
  }

  get settings(): ExportSettings {
    return this.#settings;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  judge(operation: FileOperation, path: WorkspacePath): FileDecision {
    return this.#policy.judge(operation, path);
  }

  check(settings: ExportSettings): void {
    this.#compile(settings);
  }

  permit(settings: ExportSettings): void {
    const before = this.#policy;
    this.#policy = this.#compile(settings);
    this.#settings = settings;
    for (const listener of this.#listeners)
      listener((path) => before.judge("read", path).decision === "allow");
  }

  onPermit(listener: (wasOpen: (path: WorkspacePath) => boolean) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #compile(settings: ExportSettings): FilePolicy {
    const { root, closed, home } = this.#parts;
    return createFilePolicy(settings, { ignoresCase: root.folding.case, closed, home });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(
      new Fault("WORKSPACE_ACCESS_UNAVAILABLE", `workspace ${this.#settings.name} is not exported any more`, {
        details: { reason: "stopped", workspace: this.#settings.name },
      }),
    );
    await this.root[Symbol.asyncDispose]();
  }
}
