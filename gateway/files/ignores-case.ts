import type { NodeRecord } from "../pairing/nodes.ts";
import type { WorkspaceRegistry } from "./registry.ts";

/** As its node says of the volume, and always where the system does so by default. */
export function ignoresCaseOn(
  { id, platform }: Pick<NodeRecord, "id" | "platform">,
  workspace: string,
  registry: Pick<WorkspaceRegistry, "ignoresCase">,
): boolean {
  return /^(?:win|darwin)/.test(platform) || registry.ignoresCase(id, workspace);
}
