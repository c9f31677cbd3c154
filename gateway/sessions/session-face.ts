import type { SkillList } from "../skills/catalogue-skill.ts";
import { promptOf } from "../skills/prompt.ts";
import { operatorAgent, type Caller } from "../tools/caller.ts";
import type { Removal, SurfaceTool } from "../tools/surface.ts";
import type { Tools } from "../tools/tools.ts";
import type { FaceSkillList, FaceTool, SessionFace } from "./face.ts";
import type { SessionMemory } from "./session-memory.ts";
import type { SessionSkills } from "./session-skills.ts";
import type { Sessions } from "./sessions.ts";
import { watchChanges } from "./watch-changes.ts";

/** What faces stand on. */
export interface FaceParts {
  readonly sessions: Pick<Sessions, "caller" | "states">;
  readonly tools: Tools;
  readonly skills: SessionSkills;
  readonly memory: SessionMemory;
}

/** The face of a session in this process; empty: that of the operator, who sees everything. */
export function openLocalFace(sessionId: string, parts: FaceParts): SessionFace {
  // Looked up for each request, so that nothing goes on once the session is closed.
  const caller = async (): Promise<Caller> =>
    sessionId === "" ? { agent: operatorAgent } : await parts.sessions.caller(sessionId);
  return {
    sessionId,
    listTools: async ({ removed }) => {
      const surface = await parts.tools.surface(await caller());
      const shown = surface.tools.map(toTool);
      const gone = removed === true ? surface.removed.map(toRemovedTool) : [];
      return {
        tools: [...shown, ...gone].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
        surface: surface.digest,
      };
    },
    callTool: async function* callTool(call) {
      yield* parts.tools.call(await caller(), call);
    },
    explainTool: async ({ name }) => await parts.tools.explain(await caller(), name),
    listSkills: async () => toSkillList(await parts.skills.prepare(await caller())),
    listSkillFiles: async (request) => await parts.skills.files(await caller(), request),
    readSkill: async function* readSkill(request) {
      yield* parts.skills.read(await caller(), request);
    },
    searchMemory: async (question) => await parts.memory.search(await caller(), question),
    getMemory: async (lines) => await parts.memory.get(await caller(), lines),
    changes: ({ signal }) => watchChanges(caller, { ...parts, signal }),
  };
}

function toTool({ name, owner, description, node }: SurfaceTool): FaceTool {
  return {
    name,
    title: description.title,
    description: description.description,
    inputSchemaJson: JSON.stringify(description.inputSchema),
    outputSchemaJson: "",
    owner,
    node: node?.alias ?? "",
    effect: description.effect,
    callClass: description.callClass,
    state: "exposed",
    rule: "",
    reason: "",
  };
}

function toRemovedTool({ candidate, rule, reason }: Removal): FaceTool {
  return { ...toTool(candidate), state: "removed", rule, reason };
}

function toSkillList(list: SkillList): FaceSkillList {
  const { text, forms } = promptOf(list);
  return {
    skills: list.skills.map(({ nodeId: _nodeId, root: _root, revision: _revision, ...shown }) => ({
      ...shown,
      promptForm: shown.state === "eligible" ? (forms.get(shown.name) ?? "") : "",
    })),
    snapshot: list.snapshot,
    prompt: text,
    builtMs: BigInt(list.builtMs),
    buildReason: list.reason,
    staleSinceMs: BigInt(list.staleSinceMs ?? 0),
  };
}
