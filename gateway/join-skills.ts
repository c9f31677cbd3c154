import type { Clock } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import { parseAlias } from "../shared/names/alias.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { type ContentStore, openContentStore } from "./files/content-store.ts";
import type { NodeRecord } from "./pairing/nodes.ts";
import { createSkillCatalogue, type SkillCatalogue } from "./skills/catalogue.ts";
import { holdSkills } from "./skills/hold-skills.ts";
import { keepInstructions } from "./skills/keep-instructions.ts";
import { createStoredAssignments } from "./skills/stored-assignments.ts";
import type { Store } from "./store/store.ts";

/** What the skills of a gateway stand on. */
export interface SkillsJoin {
  readonly settings: Pick<GatewaySettings, "contentStore">;
  readonly deps: { readonly clock: Clock; readonly log: Log };
  readonly store: Store;
  /** Alias by node id, of those that are not revoked; changes while it is used. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Every node that was ever paired. */
  readonly known: readonly NodeRecord[];
}

/**
 * The catalogue of skills, and the content store, without what revoked nodes had; it holds what skills refer to until the
 * scope ends.
 */
export async function joinSkills(
  scope: Scope,
  { settings, deps, store, aliases, known }: SkillsJoin,
): Promise<{ readonly skills: SkillCatalogue; readonly content: ContentStore }> {
  const { clock } = deps;
  const log = deps.log.child({ room: "skills" });
  const content = await openContentStore({
    ...settings.contentStore,
    clock,
    log: deps.log.child({ room: "files" }),
  });
  for (const node of known) if (node.revokedAt !== undefined) await content.forget(node.id);
  const skills = createSkillCatalogue({
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
  return { skills, content };
}
