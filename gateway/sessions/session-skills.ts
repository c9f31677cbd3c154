import type { BundleFile } from "../../shared/skill-file/bundle.ts";
import type { Links } from "../link/links.ts";
import type { Nodes } from "../pairing/nodes.ts";
import type { Policy } from "../policy/policy.ts";
import type { SkillChoice } from "../skills/agent-list.ts";
import { createBundles } from "../skills/bundles.ts";
import type { SkillList } from "../skills/catalogue-skill.ts";
import type { SkillCatalogue } from "../skills/catalogue.ts";
import {
  type KeptSkillFiles,
  listSkillFiles,
  readSkillFile,
  type SkillFilePart,
} from "../skills/resources.ts";
import type { RootReader } from "../skills/root-reader.ts";
import type { Caller } from "../tools/caller.ts";

/** What the skills of sessions stand on. */
export interface SessionSkillsOptions {
  readonly catalogue: SkillCatalogue;
  readonly links: Links;
  /** Where what was read is kept; without it every read asks the node. */
  readonly content?: KeptSkillFiles;
  readonly nodes: Pick<Nodes, "list">;
  readonly policy: Pick<Policy, "decideFile">;
  /** What reads a root of the gateway's own disk. */
  readonly readerOf?: (root: string) => RootReader | undefined;
  /** Which skills an agent may use; all by default. */
  readonly choiceOf?: (agent: string) => SkillChoice;
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
  /** Those of the caller's session as they are now, or for the operator all of them. */
  list(caller: Caller): Promise<SkillList>;
  /**
   * The same, as the session goes by it from now on: its reads give what this list shows until it is prepared again.
   * With nothing changed it is the list of before, and no node is asked.
   */
  prepare(caller: Caller): Promise<SkillList>;
  /** Names of those that can be used. */
  names(caller: Caller): Promise<readonly string[]>;
  /** The files of a skill that the caller's list shows. */
  files(caller: Caller, request: Omit<SkillFileRequest, "path">): Promise<readonly BundleFile[]>;
  /** The bytes of a file of a skill that the caller's list shows. */
  read(caller: Caller, request: SkillFileRequest): AsyncIterable<SkillFilePart>;
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown>;
}

/** Most sessions whose list is held; one beyond goes by the skills as they are when it reads. */
const maxHeld = 2_000;

/** Skills of sessions over the catalogue, narrowed by policy. */
export function createSessionSkills(options: SessionSkillsOptions): SessionSkills {
  const held = new Map<string, SkillList>();
  const bundles = createBundles(options.links, options.readerOf);
  const admit = async (caller: Caller): Promise<(nodeId: string) => boolean> => {
    const nodes = new Map((await options.nodes.list()).map((node) => [node.id, node]));
    const { agent } = caller;
    return (nodeId) => {
      const node = nodes.get(nodeId);
      if (!node) return false;
      return options.policy.decideFile({ agent, node, verb: "read" }).decision === "allow";
    };
  };
  const list = async (caller: Caller): Promise<SkillList> => {
    if (!caller.session) return options.catalogue.list();
    const bound = { nodeId: caller.session.nodeId, workspace: caller.session.workspace };
    const { agent } = caller;
    const choice = options.choiceOf?.(agent);
    return options.catalogue.view({
      bound,
      mayUse: await admit(caller),
      agent,
      ...(choice ? { choice } : {}),
    });
  };
  const prepare = async (caller: Caller): Promise<SkillList> => {
    const made = await list(caller);
    if (caller.session) hold(held, caller.session.id, made);
    return made;
  };
  /** What the session was shown, without what it may no longer see: a node that was taken from it is gone at once. */
  const shown = async (caller: Caller): Promise<SkillList> => {
    const known = caller.session && held.get(caller.session.id);
    if (!known) return await list(caller);
    const mayUse = await admit(caller);
    return { ...known, skills: known.skills.filter(({ nodeId }) => nodeId === "" || mayUse(nodeId)) };
  };
  return {
    list,
    prepare,
    names: async (caller) => namesOf(await list(caller)),
    files: async (caller, { name, signal }) =>
      await listSkillFiles({ bundles, list: await shown(caller), name, signal }),
    read: async function* read(caller, { name, path, signal }) {
      yield* readSkillFile({
        links: options.links,
        list: await shown(caller),
        name,
        path,
        signal,
        bundles,
        ...(options.readerOf ? { readerOf: options.readerOf } : {}),
        ...(options.content ? { content: options.content } : {}),
        keepsOffline: caller.session !== undefined,
      });
    },
    changes: (watch) => options.catalogue.changes(watch),
  };
}

function hold(held: Map<string, SkillList>, sessionId: string, list: SkillList): void {
  held.delete(sessionId);
  const [oldest] = held.keys();
  if (held.size >= maxHeld && oldest !== undefined) held.delete(oldest);
  held.set(sessionId, list);
}

/** The names of the skills of a list that can be used. */
function namesOf(list: SkillList): readonly string[] {
  return list.skills.filter(({ state }) => state === "eligible").map(({ name }) => name);
}
