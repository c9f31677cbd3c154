import type { WorkspaceRegistry } from "./files/registry.ts";
import type { Published } from "./serve/node-summary.ts";
import type { SkillCatalogue } from "./skills/catalogue.ts";
import type { ToolCatalogue } from "./tools/catalogue.ts";

/** Where it is known what nodes publish. */
export interface PublishedRooms {
  readonly registry: Pick<WorkspaceRegistry, "list">;
  readonly tools: Pick<ToolCatalogue, "list">;
  readonly skills: Pick<SkillCatalogue, "list">;
}

/** What a node publishes now, as the list of nodes tells it. */
export function publishedBy(nodeId: string, base: PublishedRooms): Published {
  const workspaces = base.registry.list().filter((one) => one.nodeId === nodeId && one.state === "available");
  const tools = base.tools.list().find((set) => set.nodeId === nodeId);
  const skills = base.skills.list().skills.filter((skill) => skill.nodeId === nodeId);
  return {
    workspaces: workspaces.map(({ workspace }) => workspace),
    tools: tools?.tools.length ?? 0,
    skills: skills.filter(({ state }) => state === "eligible").length,
    refused: (tools?.problems ?? []).map(({ name, fault }) => ({ kind: "tool", name, fault })),
    containments: workspaces.map(({ containment }) => containment),
  };
}
