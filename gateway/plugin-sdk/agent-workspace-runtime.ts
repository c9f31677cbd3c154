import type { SkillFiles } from "../../shared/skill-file/skill-files.ts";

/**
 * Workspaces of agents for plugins: which path is remote, access to it while its host is there, the documents that an
 * agent is begun with, memory files. It loads nothing of sessions, tools, faces or models.
 */

export {
  type AccessRegistration,
  type AgentWorkspaces,
  createAgentWorkspaces,
  isWorkspaceUnavailable,
  type WorkspaceAccess,
} from "../files/agent-workspaces.ts";
export {
  type BootstrapDocuments,
  createBootstrapDocuments,
  type DroppedPattern,
} from "../files/bootstrap-documents.ts";
export type { UnavailableReason } from "../files/unavailable.ts";
export {
  createMemoryClient,
  type MemoryClient,
  type MemoryClientOptions,
  type MemoryTransport,
} from "../memory/memory-client.ts";

/**
 * The files of the skill in a folder of this machine, with their digests, as they would be delivered; what cannot be is
 * named with the reason. What reads them is loaded at the first call. Fails as the reader of skills does.
 */
export async function readSkillBundle(dir: string, signal: AbortSignal): Promise<SkillFiles> {
  const [{ openRoot }, { listSkillFiles }, { rootPath }] = await Promise.all([
    import("../../shared/root/open-root.ts"),
    import("../../shared/skill-file/skill-files.ts"),
    import("../../shared/names/workspace-path.ts"),
  ]);
  await using root = await openRoot(dir);
  return await listSkillFiles(root, rootPath, { signal });
}
