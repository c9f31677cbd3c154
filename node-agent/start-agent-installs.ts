import path from "node:path";
import type { Clock } from "../shared/lifetime/clock.ts";
import type { Environment } from "../shared/process/environment.ts";
import type { NodeSettings } from "./config/node-settings.ts";
import { createInstalls, installedBinFolders, type MachineInstalls } from "./installs/installs.ts";
import type { SkillsHost } from "./skills/skills.ts";

/** What the installs of an agent are made of. */
export interface AgentInstallsParts {
  readonly nodeId: string;
  /** Asked at each call. */
  readonly settings: () => NodeSettings;
  readonly environment: Environment;
  readonly skills: Pick<SkillsHost, "find" | "judge">;
  readonly clock: Clock;
}

/** `PATH` of commands: the machine's own first, then what was installed for skills. */
export function commandPathOf(settings: NodeSettings): string {
  return [settings.path, ...installedBinFolders(installsDir(settings))].join(path.delimiter);
}

/** The installs of an agent; what was installed is seen by commands and gates at once. */
export function startAgentInstalls(parts: AgentInstallsParts): Promise<MachineInstalls> {
  const { nodeId, settings, environment, skills, clock } = parts;
  return createInstalls({
    dir: installsDir(settings()),
    nodeId,
    settings: () => settings().installs,
    path: () => commandPathOf(settings()),
    machinePath: () => settings().path,
    environment,
    findSkill: (workspace, folder, signal) => skills.find(workspace, folder, signal),
    onInstalled: () => skills.judge(),
    clock,
  });
}

function installsDir({ dir }: Pick<NodeSettings, "dir">): string {
  return path.join(dir, "installs");
}
