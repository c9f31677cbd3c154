import { Fault } from "../../shared/fault/fault.ts";
import { isWorkspacePath, parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import type { BundleFile } from "../../shared/skill-file/bundle.ts";
import { instructionFileName } from "../../shared/skill-file/limits.ts";
import { ignoresCaseOn } from "../files/ignores-case.ts";
import type { WorkspaceRegistry } from "../files/registry.ts";
import type { Links } from "../link/links.ts";
import type { Nodes } from "../pairing/nodes.ts";
import type { FileDecision, Policy } from "../policy/policy.ts";
import type { SkillChoice } from "../skills/agent-list.ts";
import { createBundles } from "../skills/bundles.ts";
import type { CatalogueSkill, SkillList } from "../skills/catalogue-skill.ts";
import type { SkillCatalogue } from "../skills/catalogue.ts";
import {
  type KeptSkillFiles,
  findSkill,
  listSkillFiles,
  readSkillFile,
  type SkillFilePart,
} from "../skills/resources.ts";
import type { RootReader } from "../skills/root-reader.ts";
import { snapshotOf } from "../skills/snapshot.ts";
import type { Caller } from "../tools/caller.ts";

/** What the skills of sessions stand on. */
export interface SessionSkillsOptions {
  readonly catalogue: SkillCatalogue;
  readonly links: Links;
  /** Where what was read is kept; without it every read asks the node. */
  readonly content?: KeptSkillFiles;
  readonly nodes: Pick<Nodes, "list">;
  readonly policy: Pick<Policy, "decideFile">;
  /** Knows whose volume takes upper and lower case for one; none does by default. */
  readonly registry?: Pick<WorkspaceRegistry, "ignoresCase">;
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
  const admit = (caller: Caller): Promise<Admission> => admitSkills(caller, options);
  const list = async (caller: Caller): Promise<SkillList> => {
    if (!caller.session) return options.catalogue.list();
    const bound = { nodeId: caller.session.nodeId, workspace: caller.session.workspace };
    const { agent } = caller;
    const choice = options.choiceOf?.(agent);
    const { mayUse, denial } = await admit(caller);
    const view = options.catalogue.view({ bound, mayUse, agent, ...(choice ? { choice } : {}) });
    return narrow(view, (skill) => denial(skill, instructionFileName) === undefined);
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
    const { mayUse, denial } = await admit(caller);
    const may = (skill: CatalogueSkill): boolean =>
      skill.nodeId === "" || (mayUse(skill.nodeId) && denial(skill, instructionFileName) === undefined);
    return { ...known, skills: known.skills.filter(may) };
  };
  return {
    list,
    prepare,
    names: async (caller) => namesOf(await list(caller)),
    files: async (caller, { name, signal }) => {
      const known = await shown(caller);
      const files = await listSkillFiles({ bundles, list: known, name, signal });
      if (!caller.session) return files;
      const { denial } = await admit(caller);
      const skill = findSkill(known, name);
      return files.filter(({ path }) => denial(skill, path) === undefined);
    },
    read: async function* read(caller, { name, path, signal }) {
      const known = await shown(caller);
      if (caller.session && path !== "") {
        const refused = (await admit(caller)).denial(findSkill(known, name), path);
        if (refused) throw refused;
      }
      yield* readSkillFile({
        links: options.links,
        list: known,
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

/** What policy says of a caller and of what is read for it. */
interface Admission {
  readonly mayUse: (nodeId: string) => boolean;
  /** The fault of a file of a node's skill that the caller may not read; its path is relative to the skill's folder. */
  readonly denial: (skill: CatalogueSkill, path: string) => Fault | undefined;
}

async function admitSkills(
  { agent }: Caller,
  options: Pick<SessionSkillsOptions, "nodes" | "policy" | "registry">,
): Promise<Admission> {
  const nodes = new Map((await options.nodes.list()).map((node) => [node.id, node]));
  const { policy, registry } = options;
  const decide = (
    nodeId: string,
    at?: { readonly workspace: string; readonly path: string },
  ): FileDecision | undefined => {
    const node = nodes.get(nodeId);
    if (!node) return undefined;
    if (!at || !isWorkspacePath(at.path)) return policy.decideFile({ agent, node, verb: "read" });
    const ignoresCase = registry ? ignoresCaseOn(node, at.workspace, registry) : false;
    const place = { workspace: at.workspace, path: parseWorkspacePath(at.path), ignoresCase };
    return policy.decideFile({ agent, node, verb: "read", place });
  };
  return {
    mayUse: (nodeId) => decide(nodeId)?.decision === "allow",
    denial: ({ nodeId, workspace, folder }, path) => {
      if (nodeId === "") return undefined;
      const verdict = decide(nodeId, { workspace, path: `${folder}/${path}` });
      return verdict?.decision === "allow" ? undefined : toDenial(verdict, path);
    },
  };
}

/** Nobody is asked about the files of a skill: what a person would have to allow at each read is not shown. */
function toDenial(verdict: FileDecision | undefined, path: string): Fault {
  const { rule = "default", side = "gateway", reason = "", hint } = verdict ?? {};
  return new Fault(
    "POLICY_DENIED",
    reason === "" ? `${path} may not be read without being asked about` : reason,
    {
      ...(hint === undefined ? {} : { hint }),
      details: { path, rule, side },
    },
  );
}

const narrowed = new WeakMap<SkillList, SkillList>();

/** The list without what may not be shown: the same one where all may, and made once for what is left. */
function narrow(list: SkillList, may: (skill: CatalogueSkill) => boolean): SkillList {
  const skills = list.skills.filter(may);
  if (skills.length === list.skills.length) return list;
  const known = narrowed.get(list);
  if (known?.skills.length === skills.length && known.skills.every((skill, at) => skill === skills[at]))
    return known;
  const made = { ...list, skills, snapshot: snapshotOf(skills) };
  narrowed.set(list, made);
  return made;
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
