import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { coreTools, type ToolEffect } from "../../shared/core-tools/core-tools.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type {
  Policy as PolicyService,
  PolicyExplainRequest,
  PolicyExplainResponse,
  PolicyExplainResponseSchema,
} from "../../shared/gen/fairlead/v1/policy_pb.ts";
import { parseWorkspaceName } from "../../shared/names/alias.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Audit } from "../audit/audit.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import type { FileVerb } from "../policy/file-rules.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import { meaningIn } from "../policy/meaning.ts";
import type { ToolLists } from "../policy/policy-file.ts";
import { toCanonicalName } from "../policy/tool-names.ts";
import { actorOf } from "./record-changes.ts";

/** One path that somebody might do something with. */
export interface FilePlace {
  readonly nodeId: string;
  readonly workspace: string;
  readonly path: WorkspacePath;
  readonly verb: FileVerb;
}

/** What one side says. */
export interface SideWord {
  readonly decision: "allow" | "ask" | "deny" | "unknown";
  readonly rule: string;
  readonly reason: string;
  readonly hint: string;
}

/** What the service stands on. */
export interface PolicyFaceOptions {
  readonly policy: Pick<LivePolicy, "text" | "check" | "apply" | "explainFile" | "decideTool">;
  /** Absolute. */
  readonly policyFile: string;
  /** The agents' lists of the configuration. */
  readonly configured: Readonly<Record<string, ToolLists>>;
  readonly nodes: Pick<Nodes, "resolve">;
  /** The standing grant that an agent's calls on files go by. */
  readonly findGrant: (agent: string, place: FilePlace) => string | undefined;
  /** Whether a workspace's volume takes upper and lower case for one. */
  readonly ignoresCase: (node: NodeRecord, workspace: string) => boolean;
  readonly askNode: (place: FilePlace, signal: AbortSignal) => Promise<SideWord>;
  /** A tool that the node publishes, by its own name. */
  readonly findTool: (
    nodeId: string,
    name: string,
  ) => { readonly effect: ToolEffect; readonly asks: boolean } | undefined;
  readonly audit: Pick<Audit, "append">;
}

type Answer = Promise<MessageInitShape<typeof PolicyExplainResponseSchema>>;

type Both = Pick<PolicyExplainResponse, "decision" | "rule" | "side" | "reason" | "hint"> & {
  readonly node: Omit<SideWord, "hint">;
};

/** The service that answers questions about policy, and changes it. Whoever serves it has checked who asks. */
export function createPolicyFace(options: PolicyFaceOptions): ServiceImplementation<typeof PolicyService> {
  const { policy, policyFile } = options;
  return {
    show: async () => {
      const file = policy.text();
      const checked = file ? policy.check(file) : { rules: {}, warnings: [], entries: [] };
      const rules = toJson({ ...checked.rules, configured: options.configured });
      return {
        file: policyFile,
        exists: file !== undefined,
        text: file?.text ?? "",
        rules,
        entries: [...checked.entries],
        warnings: [...checked.warnings],
      };
    },
    check: async ({ name, text }) => {
      const { warnings, entries } = policy.check({ name, text: bounded(text) });
      return { warnings: [...warnings], entries: [...entries] };
    },
    apply: async ({ name, text }, context) => {
      const before = policy.text()?.text;
      const { warnings } = policy.check({ name, text: bounded(text) });
      await policy.apply(text);
      await options.audit.append({
        ...actorOf(context),
        action: "policy.apply",
        target: "policy",
        outcome: "ok",
        ...(before === undefined ? {} : { before: summarize(before) }),
        after: summarize(text),
      });
      return { file: policyFile, changed: before !== text, warnings: [...warnings] };
    },
    explain: async (request, { signal }) => {
      const node = await options.nodes.resolve(request.node);
      if (request.tool !== "") return explainTool(options, request, node);
      return await explainFile(options, request, { node, signal });
    },
  };
}

/** A policy that a person wrote is far smaller, in bytes. */
const maxTextBytes = 1_048_576;

function bounded(text: string): string {
  const actual = Buffer.byteLength(text);
  if (actual <= maxTextBytes) return text;
  throw new Fault("TOO_LARGE", `the policy has more than ${maxTextBytes} bytes`, {
    details: { field: "text", limit: maxTextBytes, actual },
  });
}

/** A text of up to so many characters stands in the record itself. */
const recordedCharacters = 8_192;

function summarize(text: string): { readonly digest: string; readonly text?: string } {
  const digest = digestOf(text);
  return text.length > recordedCharacters ? { digest } : { digest, text };
}

/** The rules as plain JSON. */
function toJson(rules: unknown): JsonObject {
  // Only what JSON has is in the rules of a parsed file.
  return JSON.parse(JSON.stringify(rules)) as JsonObject;
}

function explainTool(options: PolicyFaceOptions, request: PolicyExplainRequest, node: NodeRecord): Both {
  const name = toCanonicalName(request.tool);
  const prefix = `${node.alias}__`;
  const ownName = name.startsWith(prefix) ? name.slice(prefix.length) : name;
  const published = options.findTool(node.id, ownName);
  const core = coreTools.find((tool) => tool.name === ownName);
  const effect = published?.effect ?? core?.effect;
  if (effect === undefined) {
    throw new Fault("NOT_FOUND", `${node.alias} publishes no tool ${ownName} now`, {
      hint: "fairlead tools ls",
      details: { tool: name },
    });
  }
  const said = options.policy.decideTool({ agent: request.agent, node, name, ownName, effect });
  const asks = published?.asks === true && said.decision !== "deny";
  const nodeWord: SideWord = asks
    ? { decision: "ask", rule: "exec.mode", reason: `${node.alias} wants a person to be asked`, hint: "" }
    : { decision: published ? "allow" : "unknown", rule: "", reason: "", hint: "" };
  return toExplanation({ ...said, hint: said.hint ?? "" }, nodeWord);
}

const verbs: readonly FileVerb[] = ["list", "read", "write", "remove", "move", "mkdir"];

async function explainFile(
  options: PolicyFaceOptions,
  request: PolicyExplainRequest,
  { node, signal }: { readonly node: NodeRecord; readonly signal: AbortSignal },
): Answer {
  const verb = verbs.find((one) => one === request.verb);
  if (!verb) {
    throw new Fault("INVALID_ARGUMENT", "say a tool, or what would be done with which path", {
      details: { field: "verb", expected: [...verbs] },
    });
  }
  const workspace = parseWorkspaceName(request.workspace, "workspace");
  const path = parseWorkspacePath(request.path, { platform: toPathPlatform(node.platform), field: "path" });
  const place: FilePlace = { nodeId: node.id, workspace, path, verb };
  const { decision, layers } = options.policy.explainFile({
    agent: request.agent,
    node,
    verb,
    place: {
      workspace,
      path,
      ignoresCase: options.ignoresCase(node, workspace),
      findGrant: () => options.findGrant(request.agent, place),
    },
  });
  const nodeWord = await options.askNode(place, signal);
  return {
    ...toExplanation({ ...decision, hint: decision.hint ?? "" }, nodeWord),
    nearest: decision.nearest ?? "",
    grantId: decision.grantId ?? "",
    layers: layers.map(({ layer, list, entries, ...said }) => ({
      name: layer,
      decision: said.decision,
      rule: said.rule,
      entries: entries.map((entry) => ({ layer, list, entry, meaning: meaningIn(list, entry) })),
    })),
  };
}

const strength = { allow: 0, unknown: 0, ask: 1, deny: 2 } as const;

/** Both sides together: the stronger word is told, and the gateway's where they are equal. */
function toExplanation(gateway: SideWord, node: SideWord): Both {
  const isNodes = strength[node.decision] > strength[gateway.decision];
  const { decision, rule, reason, hint } = isNodes ? node : gateway;
  return {
    decision,
    rule,
    side: isNodes ? "node" : "gateway",
    reason,
    hint,
    node: { decision: node.decision, rule: node.rule, reason: node.reason },
  };
}
