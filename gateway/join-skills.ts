import { resolveHome } from "../shared/config/home.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import { parseAlias } from "../shared/names/alias.ts";
import type { Environment } from "../shared/process/environment.ts";
import { findBinary } from "../shared/process/find-binary.ts";
import { isTrueAt, type MachineFacts } from "../shared/skill-file/gates.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { type ContentStore, openContentStore } from "./files/content-store.ts";
import type { NodeRecord } from "./pairing/nodes.ts";
import type { SessionSkillsOptions } from "./sessions/session-skills.ts";
import { createSkillCatalogue, type SkillCatalogue } from "./skills/catalogue.ts";
import { createGateFacts } from "./skills/gate-facts.ts";
import { findGatewayRoots } from "./skills/gateway-roots.ts";
import { type GatewaySkills, startGatewaySkills } from "./skills/gateway-skills.ts";
import { holdSkills } from "./skills/hold-skills.ts";
import { keepInstructions } from "./skills/keep-instructions.ts";
import type { GatewaySkill } from "./skills/root-reader.ts";
import { createStoredAssignments } from "./skills/stored-assignments.ts";
import type { Store } from "./store/store.ts";

/** What the skills of a gateway stand on. */
export interface SkillsJoin {
  readonly settings: GatewaySettings;
  readonly deps: { readonly clock: Clock; readonly log: Log; readonly environment: Environment };
  readonly store: Store;
  /** Alias by node id, of those that are not revoked; changes while it is used. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Every node that was ever paired. */
  readonly known: readonly NodeRecord[];
}

/** The skills of a gateway. */
export interface JoinedSkills {
  readonly skills: SkillCatalogue;
  readonly content: ContentStore;
  /** What sessions need besides. */
  readonly skillReading: Required<Pick<SessionSkillsOptions, "readerOf" | "choiceOf">>;
}

/**
 * The catalogue of skills, and the content store, without what revoked nodes had; it holds what skills refer to until the
 * scope ends.
 */
export async function joinSkills(
  scope: Scope,
  { settings, deps, store, aliases, known }: SkillsJoin,
): Promise<JoinedSkills> {
  const { clock } = deps;
  const log = deps.log.child({ room: "skills" });
  const content = await openContentStore({
    ...settings.contentStore,
    clock,
    log: deps.log.child({ room: "files" }),
  });
  for (const node of known) if (node.revokedAt !== undefined) await content.forget(node.id);
  const own = scope.use(await startOwnSkills(settings, { clock, log }));
  const facts = scope.use(
    createGateFacts({
      wanted: () => binariesOf(own.skills()),
      own: () => readMachineFacts(deps.environment, settings),
      onChange: () => skills.ownChanged(),
      clock,
      log,
    }),
  );
  const skills = createSkillCatalogue({
    own: {
      skills: () => own.skills(),
      judge: ({ gates }, nodeId) => (gates ? facts.judge(gates, nodeId) : []),
      follow: (link) => facts.follow(link),
      forget: (nodeId) => facts.forget(nodeId),
    },
    publishes: settings.publish.skills,
    prefixesOnCollision: settings.publish.prefix === "on-collision",
    aliasOf: async (nodeId) => {
      const alias = aliases.get(nodeId);
      return alias === undefined ? undefined : parseAlias(alias);
    },
    assignments: createStoredAssignments(store, clock),
    keep: (link, published) => keepInstructions(link, published, { content, log }),
    clock,
    log,
  });
  scope.spawn("held skills", (signal) => holdSkills({ catalogue: skills, content, signal }));
  scope.spawn("own skills", async (signal) => {
    for await (const _ of own.changes({ signal })) {
      facts.ask();
      skills.ownChanged();
    }
  });
  const { use, disabled } = settings.skills;
  const skillReading: JoinedSkills["skillReading"] = {
    readerOf: (root) => own.reader(root),
    choiceOf: (agent) => ({ only: settings.agents[agent]?.skills ?? use, disabled }),
  };
  return { skills, content, skillReading };
}

async function startOwnSkills(
  settings: GatewaySettings,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<GatewaySkills> {
  const usual = resolveHome({ environment: { home: undefined } }).gatewayDir;
  const { bundledDir, extraDirs, allowSymlinkTargets, watches } = settings.skills;
  return await startGatewaySkills({
    roots: () =>
      findGatewayRoots({
        gatewayDir: settings.dir,
        hasPersonal: settings.dir === usual,
        bundledDir,
        extraDirs,
      }),
    trusted: allowSymlinkTargets.map((path) => ({ path, write: false })),
    watches,
    clock,
    log,
  });
}

function binariesOf(skills: readonly GatewaySkill[]): readonly string[] {
  const names = skills.flatMap(({ gates }) => (gates ? [...gates.bins, ...gates.anyBins] : []));
  return [...new Set(names)].toSorted();
}

/** What this machine says of itself now: each program is looked for once. */
function readMachineFacts(environment: Environment, configuration: GatewaySettings): MachineFacts {
  return {
    platform: process.platform,
    hasBinary: async (name) => (await findBinary(name, environment["PATH"] ?? "")) !== undefined,
    hasVariable: (name) => (environment[name] ?? "") !== "",
    isEnabled: (setting) => isTrueAt(configuration, setting),
  };
}
