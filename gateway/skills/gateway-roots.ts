import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";

/** Where a skill comes from, in the order in which one of two equal names wins. */
export const skillSources = [
  "workspace",
  "personal",
  "managed",
  "workshop",
  "bundled",
  "extra",
  "plugin",
] as const;

/** Where a skill comes from; `node` for one that a node publishes to sessions elsewhere. */
export type SkillSource = (typeof skillSources)[number] | "node";

/** A folder of the gateway's disk whose skills are the gateway's. */
export interface GatewayRoot {
  readonly source: SkillSource;
  /** Absolute. */
  readonly dir: string;
  /** Only sessions of this agent see its skills. */
  readonly agent?: string;
}

/** What the gateway's own skills are read by. */
export interface GatewayRootSettings {
  /** State of the gateway. */
  readonly gatewayDir: string;
  /** Whether the user's own `~/.agents/skills` counts: for the user's own gateway, and for no other home. */
  readonly hasPersonal: boolean;
  /** The skills that come with the program, absolute. */
  readonly bundledDir: string;
  /** Folders as configured, absolute. */
  readonly extraDirs: readonly string[];
}

/**
 * The folders in the order of precedence: the user's, those that were installed for this gateway, each agent's Workshop,
 * those that come with the program, and the configured ones in their order. They need not be there.
 */
export async function findGatewayRoots(settings: GatewayRootSettings): Promise<readonly GatewayRoot[]> {
  const { gatewayDir, hasPersonal, bundledDir, extraDirs } = settings;
  const workshop = path.join(gatewayDir, "workshop");
  return [
    ...(hasPersonal ? [{ source: "personal" as const, dir: path.join(homedir(), ".agents", "skills") }] : []),
    { source: "managed", dir: path.join(gatewayDir, "skills") },
    ...(await agentsIn(workshop)).map((agent) => ({
      source: "workshop" as const,
      dir: path.join(workshop, agent),
      agent,
    })),
    { source: "bundled", dir: bundledDir },
    ...extraDirs.map((dir) => ({ source: "extra" as const, dir })),
  ];
}

const agentShape = /^[a-z][a-z0-9-]{0,31}$/;

async function agentsIn(workshop: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(workshop, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && agentShape.test(entry.name))
      .map((entry) => entry.name)
      .toSorted();
  } catch {
    // There is none, or it cannot be read: then no agent has one.
    return [];
  }
}
