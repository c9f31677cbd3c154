import type { Links } from "../link/links.ts";
import type { Nodes } from "../pairing/nodes.ts";
import type { Policy } from "../policy/policy.ts";
import type { SkillList } from "../skills/catalogue-skill.ts";
import type { SkillCatalogue } from "../skills/catalogue.ts";
import {
  type KeptSkillFiles,
  listSkillFiles,
  readSkillFile,
  type SkillFile,
  type SkillFilePart,
} from "../skills/resources.ts";
import type { Caller } from "../tools/caller.ts";

/** What the skills of sessions stand on. */
export interface SessionSkillsOptions {
  readonly catalogue: SkillCatalogue;
  readonly links: Links;
  /** Where what was read is kept; without it every read asks the node. */
  readonly content?: KeptSkillFiles;
  readonly nodes: Pick<Nodes, "list">;
  readonly policy: Pick<Policy, "decideFile">;
}

/** Which file of which skill. */
export interface SkillFileRequest {
  readonly name: string;
  /** Relative to the skill's folder; empty for its instruction file. */
  readonly path: string;
  readonly signal: AbortSignal;
}

/** Skills as a caller sees them. */
export interface SessionSkills {
  /** Those of the caller's session, or for the operator all of them. */
  list(caller: Caller): Promise<SkillList>;
  /** Names of those that can be used. */
  names(caller: Caller): Promise<readonly string[]>;
  /** The files of a skill that the caller's list shows. */
  files(caller: Caller, request: Omit<SkillFileRequest, "path">): Promise<readonly SkillFile[]>;
  /** The bytes of a file of a skill that the caller's list shows. */
  read(caller: Caller, request: SkillFileRequest): AsyncIterable<SkillFilePart>;
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown>;
}

/** Skills of sessions over the catalogue, narrowed by policy. */
export function createSessionSkills(options: SessionSkillsOptions): SessionSkills {
  const list = async (caller: Caller): Promise<SkillList> => {
    if (!caller.session) return options.catalogue.list();
    const nodes = new Map((await options.nodes.list()).map((node) => [node.id, node]));
    return options.catalogue.view({
      bound: { nodeId: caller.session.nodeId, workspace: caller.session.workspace },
      mayUse: (nodeId) => {
        const node = nodes.get(nodeId);
        if (!node) return false;
        const { agent } = caller;
        return options.policy.decideFile({ agent, node, verb: "read" }).decision === "allow";
      },
    });
  };
  return {
    list,
    names: async (caller) => namesOf(await list(caller)),
    files: async (caller, { name, signal }) =>
      await listSkillFiles({ links: options.links, list: await list(caller), name, signal }),
    read: async function* read(caller, { name, path, signal }) {
      yield* readSkillFile({
        links: options.links,
        list: await list(caller),
        name,
        path,
        signal,
        ...(options.content ? { content: options.content } : {}),
        keepsOffline: caller.session !== undefined,
      });
    },
    changes: (watch) => options.catalogue.changes(watch),
  };
}

/** The names of the skills of a list that can be used. */
function namesOf(list: SkillList): readonly string[] {
  return list.skills.filter(({ state }) => state === "eligible").map(({ name }) => name);
}
