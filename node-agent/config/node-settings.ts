import path from "node:path";
import type { Environment } from "../../shared/config/environment.ts";
import type { Home } from "../../shared/config/home.ts";
import { type ConfigFile, readConfig } from "../../shared/config/read-config.ts";
import type { ExportSettings } from "../workspace/export-settings.ts";
import { requireRules } from "../workspace/file-policy.ts";
import type { NodeConfig, WorkspaceConfig } from "./node-config.ts";
import { nodeConfigSchema } from "./node-config.ts";

/** How far commands go on this machine. */
export type ExecMode = "off" | "allow-list" | "ask" | "full";

/** Limits that this machine sets; each with its default. */
export interface NodeLimits {
  /** Entries of a tree. */
  readonly treeEntries: number;
  /** Levels of a tree. */
  readonly treeDepth: number;
}

/** The node's configuration with every value in place. */
export interface NodeSettings {
  /** All of this user's state; never exported, whatever a workspace covers. */
  readonly homeDir: string;
  /** State of the node: `<home>/node`. */
  readonly dir: string;
  /** The file it was read from; watched while the agent runs. */
  readonly configFile: string;
  readonly workspaces: readonly ExportSettings[];
  readonly exec: { readonly mode: ExecMode; readonly allow: readonly string[] };
  /** Whether programs may be installed for skills, and from which registry. */
  readonly installs: { readonly allow: boolean; readonly registry: string };
  /** `PATH` of commands. */
  readonly path: string;
  readonly limits: NodeLimits;
}

/** What settings are made of. */
export interface NodeSettingsSource {
  readonly home: Home;
  readonly environment: Pick<Environment, "path" | "userHome">;
}

/** Defaults of the limits. */
export const nodeLimitDefaults: NodeLimits = { treeEntries: 1_000_000, treeDepth: 64 };

const defaultRegistry = "https://registry.npmjs.org/";

/** The configuration file of a node. */
export function nodeConfigFile(home: Home): string {
  return path.join(home.nodeDir, "config.yaml");
}

/**
 * Reads the node's configuration; a mistake is `INVALID_ARGUMENT` with file, line and field, and so is a glob that is
 * none and a deny that does not deny, with the rule.
 */
export async function readNodeSettings(source: NodeSettingsSource): Promise<NodeSettings> {
  const settings = resolveNodeSettings(
    await readConfig(nodeConfigFile(source.home), nodeConfigSchema),
    source,
  );
  requireRules(settings.workspaces);
  return settings;
}

/** Settings from what is written: defaults filled in, folders made absolute. */
export function resolveNodeSettings(
  config: ConfigFile<NodeConfig>,
  source: NodeSettingsSource,
): NodeSettings {
  const { value, file } = config;
  const place = { base: path.dirname(file), userHome: source.environment.userHome };
  return {
    homeDir: source.home.dir,
    dir: source.home.nodeDir,
    configFile: file,
    workspaces: (value.workspaces ?? []).map((workspace) => resolveWorkspace(workspace, place)),
    exec: { mode: value.exec?.mode ?? "off", allow: value.exec?.allow ?? [] },
    installs: {
      allow: value.installs?.allow ?? false,
      registry: value.installs?.registries?.[0] ?? defaultRegistry,
    },
    path: value.path ?? source.environment.path,
    limits: {
      treeEntries: value.limits?.treeEntries ?? nodeLimitDefaults.treeEntries,
      treeDepth: value.limits?.treeDepth ?? nodeLimitDefaults.treeDepth,
    },
  };
}

interface Place {
  /** Folder of the configuration file. */
  readonly base: string;
  readonly userHome: string;
}

/** One workspace as it is written: defaults filled in, its folder made absolute. */
export function resolveWorkspace(workspace: WorkspaceConfig, place: Place): ExportSettings {
  const write = workspace.write ?? [];
  return {
    name: workspace.name,
    dir: expandFolder(workspace.dir, place),
    read: workspace.read ?? ["**"],
    write,
    deny: workspace.deny ?? [],
    remove: workspace.remove ?? write.length > 0,
    move: workspace.move ?? write.length > 0,
    mkdir: workspace.mkdir ?? write.length > 0,
    followSymlinks: workspace.followSymlinks ?? false,
    ...toTrusted(workspace, place),
    allowHardLinks: workspace.allowHardLinks ?? false,
    ...(workspace.containment ? { containment: workspace.containment } : {}),
    userHome: place.userHome,
    maxFileBytes: workspace.maxFileBytes,
  };
}

/** The folders are named as a workspace's own is. */
function toTrusted(
  { allowSymlinkTargets = [] }: WorkspaceConfig,
  place: Place,
): Pick<ExportSettings, "allowSymlinkTargets"> {
  if (allowSymlinkTargets.length === 0) return {};
  return {
    allowSymlinkTargets: allowSymlinkTargets.map(({ path: folder, write = false }) => ({
      path: expandFolder(folder, place),
      write,
    })),
  };
}

/** `~` is this user's home; a relative folder is taken from the folder of the configuration file. */
export function expandFolder(dir: string, place: Place): string {
  const [, rest] = /^~(?:[/\\](.*))?$/s.exec(dir) ?? [];
  if (dir.startsWith("~") && (rest !== undefined || dir === "~"))
    return path.resolve(place.userHome, rest ?? "");
  return path.resolve(place.base, dir);
}
