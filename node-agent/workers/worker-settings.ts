import type { ExportSettings } from "../workspace/export-settings.ts";
import type { OpenWorkspaceOptions, TreeLimits } from "../workspace/open-workspace.ts";
import { readableFolders } from "../workspace/readable-folders.ts";
import type { WorkerPlan } from "./worker.ts";

/** What a worker is told of the machine: what it exports, and what is never exported. */
export interface WorkerWorkspaces {
  /** In the order of the configuration. */
  readonly workspaces: readonly ExportSettings[];
  /** All of this program's state. */
  readonly homeDir: string;
  readonly limits: TreeLimits;
}

/** The plan of a worker that reads these workspaces; `more` is told to it as well. */
export function toWorkerPlan(
  read: WorkerWorkspaces,
  more: Readonly<Record<string, unknown>> = {},
): WorkerPlan {
  // A worker never writes: without a glob for it the root is opened for reading and nothing in it is swept.
  const workspaces = read.workspaces.map((workspace) => ({ ...workspace, write: [] }));
  return { settings: { ...more, ...read, workspaces }, dirs: workspaces.flatMap(readableFolders) };
}

/** What `openWorkspace` takes in a worker. */
export function toOpenOptions(read: WorkerWorkspaces): OpenWorkspaceOptions {
  return { homeDir: read.homeDir, limits: read.limits, epoch: 1 };
}
