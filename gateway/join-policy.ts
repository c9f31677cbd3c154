import { faultFromError } from "../shared/fault/fault-from-error.ts";
import { isFault } from "../shared/fault/fault.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import type { Log } from "../shared/log/log.ts";
import type { Grants } from "./approvals/grants.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { operationOfVerb } from "./files/admission.ts";
import { ignoresCaseOn } from "./files/ignores-case.ts";
import type { WorkspaceRegistry } from "./files/registry.ts";
import type { Nodes } from "./pairing/nodes.ts";
import { type LivePolicy, openPolicy } from "./policy/live-policy.ts";
import type { FilePlace, PolicyFaceOptions, SideWord } from "./serve/policy.ts";
import type { ToolCatalogue } from "./tools/catalogue.ts";

/** Opens the policy of a gateway; what is wrong with a later text, and what a text allows unawares, is logged. */
export function startPolicy(
  settings: Pick<GatewaySettings, "agents" | "policyFile" | "policyFileNamed">,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<LivePolicy> {
  const log = deps.log.child({ room: "policy" });
  return openPolicy({
    agents: settings.agents,
    place: settings,
    clock: deps.clock,
    onTaken: () => log.info("another policy is in force"),
    onWarning: (warning) => log.warn(warning),
    onFault: (error) => {
      const { code, message: reason } = faultFromError(error);
      log.error("the last good policy stays in force", { code, reason });
    },
  });
}

/** What the questions about policy stand on. */
export interface PolicyJoin {
  readonly settings: Pick<GatewaySettings, "agents" | "policyFile">;
  readonly policy: LivePolicy;
  readonly nodes: Pick<Nodes, "resolve">;
  readonly grants: Pick<Grants, "find">;
  readonly registry: Pick<WorkspaceRegistry, "acquire" | "ignoresCase">;
  readonly tools: Pick<ToolCatalogue, "find">;
}

/** The parts of the face that people ask about policy. */
export function policyParts(join: PolicyJoin): Omit<PolicyFaceOptions, "audit"> {
  const { settings, policy, nodes, grants, registry, tools } = join;
  return {
    policy,
    policyFile: settings.policyFile,
    configured: settings.agents,
    nodes,
    findGrant: (agent, { nodeId, workspace, path, verb }) => {
      const scope = { agent, sessionId: undefined, tool: undefined, nodeId, workspace };
      return grants.find({ ...scope, kind: verb, requestedPath: path })?.id;
    },
    ignoresCase: (node, workspace) => ignoresCaseOn(node, workspace, registry),
    askNode: (place, signal) => askNode(registry, place, signal),
    findTool: (nodeId, name) => tools.find(nodeId)?.tools.find((tool) => tool.name === name),
  };
}

/** How long a node may take to say what it thinks of a path, in milliseconds. */
const askDeadlineMs = 5_000;

/** What the node's own configuration says; it looks, and does nothing. */
async function askNode(
  registry: PolicyJoin["registry"],
  { nodeId, workspace, path, verb }: FilePlace,
  signal: AbortSignal,
): Promise<SideWord> {
  try {
    const { files } = registry.acquire({ nodeId, workspace });
    const asked = { path, operation: operationOfVerb[verb], countBelow: false };
    await files.preflight(asked, { signal, deadlineMs: askDeadlineMs });
  } catch (error) {
    if (signal.aborted) throw error;
    const { code, message: reason, details, hint = "" } = faultFromError(error);
    const rule = typeof details["rule"] === "string" ? details["rule"] : "";
    if (code === "POLICY_DENIED") return { decision: "deny", rule, reason, hint };
    // What is not there, or is something else, has passed the node's rules for its path.
    if (isFault(error) && saysNothing.has(code)) return { decision: "allow", rule: "", reason, hint: "" };
    return { decision: "unknown", rule: "", reason, hint };
  }
  return { decision: "allow", rule: "", reason: "", hint: "" };
}

const saysNothing = new Set(["NOT_FOUND", "NOT_A_DIRECTORY", "NOT_A_FILE"]);
