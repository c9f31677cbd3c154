import type { ToolEffect } from "../../shared/core-tools/core-tools.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { NodeProfile } from "../pairing/nodes.ts";
import { compileFileRules, type FileVerb, type LayersDecision, type LayerStep } from "./file-rules.ts";
import { meaningOf } from "./meaning.ts";
import { parsePolicy, type PolicyRules, type PolicyText, type ToolLists } from "./policy-file.ts";
import { findAllowing, findDenying, toCanonicalName, type NamedTool } from "./tool-names.ts";

/** What is asked about a node, as far as policy goes by it. */
export interface PolicyNode {
  /** Absent: policy says nothing of this very node. */
  readonly id?: string | undefined;
  readonly alias: string;
  readonly profile: NodeProfile;
}

/** Whether an agent may use a tool. */
export interface ToolQuestion {
  readonly agent: string;
  /** The node that runs it; absent for the gateway's own. */
  readonly node?: PolicyNode | undefined;
  /** The name that it is listed under. */
  readonly name: string;
  /** Its owner's own name for it. */
  readonly ownName: string;
  readonly effect: ToolEffect;
}

/** Whether an agent may do something with files of a node. */
export interface FileQuestion {
  readonly agent: string;
  readonly node: PolicyNode & { readonly id: string };
  readonly verb: FileVerb;
  /** Which path; absent: whether it may be done with any at all, as far as that does not go by paths. */
  readonly place?:
    | {
        readonly workspace: string;
        readonly path: WorkspacePath;
        /** Whether the workspace's volume takes upper and lower case for one. */
        readonly ignoresCase?: boolean | undefined;
        /** The standing grant that covers exactly this, when there is one; its id. */
        readonly findGrant?: (() => string | undefined) | undefined;
      }
    | undefined;
}

/** What policy says of a path. */
export interface FileDecision extends PolicyDecision {
  /** The id of the grant by which it is allowed. */
  readonly grantId?: string | undefined;
  /** Whether some path of the workspace is asked for: then what a path leads to is to be known beforehand. */
  readonly mayAsk: boolean;
  /** Of a denial: whether a deny entry covers the path, so that it is not even to be listed. */
  readonly isHidden?: boolean | undefined;
  /** Of a denial for want of a rule: the entry that nearly allowed it. */
  readonly nearest?: string | undefined;
}

/** A decision on a path with what led to it. */
export interface FileExplanation {
  readonly decision: FileDecision;
  /** What each layer that is for this says; none for a question without a place. */
  readonly layers: readonly LayerStep[];
}

/** What policy says, and by which rule. */
export interface PolicyDecision {
  readonly decision: "allow" | "deny" | "ask";
  /** The rule that decided: `profile.read`, `agents.NAME.deny`, `tools.allow`, `nodes.ALIAS.deny`; `default` when none. */
  readonly rule: string;
  readonly side: "gateway";
  /** For people; empty for allowed. */
  readonly reason: string;
  /** What would change it. */
  readonly hint?: string;
}

/** The gateway's policy. It only ever narrows what a node offers, and the same code answers lists, calls and questions. */
export interface Policy {
  decideTool(question: ToolQuestion): PolicyDecision;
  decideFile(question: FileQuestion): FileDecision;
  /** The node's profile: what policy says of it, else the one that it was let in with. */
  profileOf(node: PolicyNode): NodeProfile;
  /** As `decideFile`, with every layer's own word. */
  explainFile(question: FileQuestion): FileExplanation;
}

/** What `createPolicy` takes. */
export interface PolicyOptions {
  /** The agents of the gateway's configuration. */
  readonly agents?: Readonly<Record<string, ToolLists>>;
  /** The policy file, when there is one. */
  readonly file?: PolicyText;
}

const allowed: PolicyDecision = { decision: "allow", rule: "default", side: "gateway", reason: "" };

/** A policy made of configuration and file; a mistake in the file is `INVALID_ARGUMENT` with its line. */
export function createPolicy(options: PolicyOptions = {}): Policy {
  const rules: PolicyRules = options.file ? parsePolicy(options.file) : {};
  const layers = compileFileRules(rules.files);
  const profileOf = ({ id = "", profile }: PolicyNode): NodeProfile =>
    rules.nodeProfiles && Object.hasOwn(rules.nodeProfiles, id)
      ? (rules.nodeProfiles[id] ?? profile)
      : profile;
  const scopesOf = (agent: string, node: PolicyNode | undefined): readonly Scope[] => [
    ...(node ? [{ name: "", lists: { profile: profileOf(node) } }] : []),
    { name: "tools", lists: rules.tools ?? {} },
    ...(node ? [{ name: `nodes.${node.alias}`, lists: own(rules.nodes, node.alias) }] : []),
    { name: `agents.${agent}`, lists: own(options.agents, agent) },
    { name: `agents.${agent}`, lists: own(rules.agents, agent) },
  ];
  const decide = (question: ToolQuestion): PolicyDecision => {
    const ownName = toCanonicalName(question.ownName);
    const names = [toCanonicalName(question.name)];
    if (question.node) names.push(`${question.node.alias}__${ownName}`);
    const tool: Asked = { names, ownName, effect: question.effect, hasNode: question.node !== undefined };
    let asks: PolicyDecision | undefined;
    for (const scope of scopesOf(question.agent, question.node)) {
      const verdict = judge(scope, tool, question);
      if (verdict?.decision === "deny") return verdict;
      asks ??= verdict;
    }
    return asks ?? allowed;
  };
  const decideFile: Policy["decideFile"] = ({ agent, node, verb, place }) => {
    const [ownName, effect] = fileTools[verb];
    const general = decide({ agent, node, name: ownName, ownName, effect });
    if (general.decision === "deny" || !place) return { ...general, mayAsk: false };
    return toFileDecision(layers.judge({ agent, nodeId: node.id, verb, ...place }), verb, place.path);
  };
  return {
    decideTool: decide,
    decideFile,
    profileOf,
    explainFile: (question) => {
      const { agent, node, verb, place } = question;
      return {
        decision: decideFile(question),
        layers: place ? layers.explain({ agent, nodeId: node.id, verb, ...place }) : [],
      };
    },
  };
}

function toFileDecision(said: LayersDecision, verb: FileVerb, at: WorkspacePath): FileDecision {
  const { decision, layer, grantId, mayAsk, nearest } = said;
  const rule = layer === undefined ? said.rule : `files.${layer} ${said.rule}`;
  const path = at === "" ? "the workspace's root" : at;
  const common = { decision, rule, side: "gateway", mayAsk, grantId } as const;
  if (decision === "allow") return { ...common, reason: "" };
  if (decision === "ask") return { ...common, reason: `${rule}: a person must allow to ${verb} ${path}` };
  const near = nearest === undefined ? "" : `; ${JSON.stringify(nearest)} nearly allows it`;
  return {
    ...common,
    reason: `files.${layer ?? ""} does not let you ${verb} ${path} (${said.rule})${near}`,
    hint:
      nearest === undefined
        ? `change files.${layer ?? ""} in the gateway's policy`
        : `change ${nearest} of files.${layer ?? ""} in the gateway's policy: ${meaningOf(nearest)}`,
    isHidden: said.rule.startsWith("deny "),
    nearest,
  };
}

/** File operations count as the core tool that does the same. */
const fileTools: Readonly<Record<FileVerb, readonly [string, ToolEffect]>> = {
  list: ["list", "read"],
  read: ["read", "read"],
  write: ["write", "write"],
  remove: ["write", "write"],
  move: ["write", "write"],
  mkdir: ["write", "write"],
};

interface Scope {
  /** Where the lists stand; empty for the node's own profile. */
  readonly name: string;
  readonly lists: ToolLists;
}

interface Asked extends NamedTool {
  readonly effect: ToolEffect;
  readonly hasNode: boolean;
}

function own(lists: Readonly<Record<string, ToolLists>> | undefined, name: string): ToolLists {
  return lists && Object.hasOwn(lists, name) ? (lists[name] ?? {}) : {};
}

function judge(scope: Scope, tool: Asked, question: ToolQuestion): PolicyDecision | undefined {
  const { profile, allow, deny } = scope.lists;
  const said = question.name;
  if (deny) {
    const entry = findDenying(deny, tool);
    if (entry !== undefined) {
      return refuse(
        `${scope.name}.deny`,
        `${said} is denied by ${JSON.stringify(entry)} in ${scope.name}.deny`,
      );
    }
  }
  if (allow && findAllowing(allow, tool) === undefined) {
    return refuse(`${scope.name}.allow`, `${said} is not in ${scope.name}.allow`);
  }
  return profile !== undefined && tool.hasNode ? judgeProfile(profile, scope.name, question) : undefined;
}

function judgeProfile(
  profile: NodeProfile,
  scope: string,
  question: ToolQuestion,
): PolicyDecision | undefined {
  const alias = question.node?.alias ?? "";
  const where = scope === "" ? `the profile ${profile} of node ${alias}` : `${scope}.profile (${profile})`;
  const rule = scope === "" ? `profile.${profile}` : `${scope}.profile`;
  if (profile === "read" && question.effect !== "read") {
    const acts = question.ownName === "install" ? "installs nothing" : "runs no commands";
    const what = question.effect === "write" ? "writes nothing" : acts;
    const hint = scope === "" ? widening(question.node) : `change ${scope}.profile in the gateway's policy`;
    return { ...refuse(rule, `${where} ${what}`), hint };
  }
  if (profile !== "work" || question.effect !== "execute") return undefined;
  return { decision: "ask", rule, side: "gateway", reason: `${where} asks a person for each command` };
}

/** How an administrator gives a node more. */
function widening({ id, alias }: PolicyNode = { alias: "NODE", profile: "read" }): string {
  const anew = `pair it anew with fairlead invite --name ${alias} --profile work`;
  return id === undefined ? anew : `put nodeProfiles: {${id}: work} into the gateway's policy, or ${anew}`;
}

function refuse(rule: string, reason: string): PolicyDecision {
  return {
    decision: "deny",
    rule,
    side: "gateway",
    reason,
    hint: `change ${rule} in the gateway's policy`,
  };
}
