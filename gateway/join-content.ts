import type { Clock } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { type ContentStore, openContentStore } from "./files/content-store.ts";
import type { NodeRecord } from "./pairing/nodes.ts";
import type { SkillCatalogue } from "./skills/catalogue.ts";
import { holdSkills } from "./skills/hold-skills.ts";

/** What the content store of a gateway stands on. */
export interface ContentJoin {
  readonly settings: Pick<GatewaySettings, "contentStore">;
  readonly deps: { readonly clock: Clock; readonly log: Log };
  readonly skills: SkillCatalogue;
  /** Every node that was ever paired. */
  readonly known: readonly NodeRecord[];
}

/** Opens the store without what revoked nodes had, and has it hold what skills refer to until the scope ends. */
export async function joinContent(
  scope: Scope,
  { settings, deps, skills, known }: ContentJoin,
): Promise<ContentStore> {
  const { clock, log } = deps;
  const content = await openContentStore({
    ...settings.contentStore,
    clock,
    log: log.child({ room: "files" }),
  });
  for (const node of known) if (node.revokedAt !== undefined) await content.forget(node.id);
  scope.spawn("held skills", (signal) => holdSkills({ catalogue: skills, content, signal }));
  return content;
}
