import { createHash } from "node:crypto";
import type { WorkspaceRegistry } from "../files/registry.ts";
import type { MemoryWorkspace, MemoryWorkspaces } from "./memory-workspace.ts";

/** What `listMemoryWorkspaces` stands on. */
export interface MemoryWorkspacesOptions {
  readonly registry: Pick<WorkspaceRegistry, "list" | "changes">;
  /** The present alias of a node, or undefined for one that is unknown. */
  readonly aliasOf: (nodeId: string) => string | undefined;
}

/** Every workspace of the registry that was not revoked, as the memory indexes know it. */
export function listMemoryWorkspaces({ registry, aliasOf }: MemoryWorkspacesOptions): MemoryWorkspaces {
  return {
    list: () =>
      registry
        .list()
        .filter(({ reason }) => reason !== "revoked" && reason !== "stopped")
        .map(({ nodeId, workspace }) => toMemoryWorkspace(nodeId, workspace, aliasOf(nodeId) ?? nodeId)),
    changes: (options) => registry.changes(options),
  };
}

/** The workspace under an id that names its index file: the same for as long as node and name stay. */
function toMemoryWorkspace(nodeId: string, name: string, alias: string): MemoryWorkspace {
  const id = createHash("sha256").update(`${nodeId}/${name}`).digest("hex").slice(0, 32);
  return { id, nodeId, alias, name };
}
