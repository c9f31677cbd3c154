import type { MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import {
  Installs,
  type InstallPlan as WirePlan,
  type InstallsPlanResponse,
} from "../../shared/gen/fairlead/v1/installs_pb.ts";
import type { SessionsInstallDependenciesResponseSchema } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { digestOfPlan, type InstallPlan } from "../../shared/skill-file/install-plan.ts";
import type { Approvals } from "../approvals/approvals.ts";
import type { Audit } from "../audit/audit.ts";
import type { Links } from "../link/links.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import type { Policy } from "../policy/policy.ts";
import type { CatalogueSkill } from "../skills/catalogue-skill.ts";
import { findSkill } from "../skills/resources.ts";
import type { Caller } from "../tools/caller.ts";
import type { SessionSkills } from "./session-skills.ts";

/** What installs of sessions stand on. */
export interface SessionInstallsOptions {
  readonly skills: Pick<SessionSkills, "list">;
  readonly nodes: Pick<Nodes, "list">;
  readonly policy: Pick<Policy, "decideTool">;
  readonly approvals: Pick<Approvals, "ask">;
  readonly links: Pick<Links, "get">;
  readonly audit: Pick<Audit, "append">;
}

/** What is to be made present. */
export interface InstallRequest {
  /** The skill's name in the caller's list. */
  readonly skill: string;
  readonly noWait: boolean;
  /** Milliseconds that the install may take; 0: the node's default. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** One thing that an install says. */
export type InstallPart = NonNullable<
  MessageInitShape<typeof SessionsInstallDependenciesResponseSchema>["part"]
>;

/** Installs what skills need, on the machines that the skills are on. */
export interface SessionInstalls {
  /**
   * Plans on the skill's node, asks a person for exactly that plan, and has it done. `NOT_FOUND` for a skill that the
   * caller does not see, `POLICY_DENIED` where policy lets the caller install nothing, the faults of approvals, and what
   * the node says. Leaving early cancels it.
   */
  install(caller: Caller, request: InstallRequest): AsyncIterable<InstallPart>;
}

/** Planning asks a registry. */
const planMs = 120_000;

/** What is done after an install has ended: binaries are looked at, files are synced. */
const afterMs = 60_000;

/** Installs over the skills, policy and approvals of a gateway. Each plan, decision and end leaves a record. */
export function createSessionInstalls(options: SessionInstallsOptions): SessionInstalls {
  return {
    install: async function* install(caller, request) {
      const skill = findSkill(await options.skills.list(caller), request.skill);
      if (skill.nodeId === "") throw ownSkill(skill.name);
      const record = createRecorder(caller, skill, options);
      try {
        yield* run({ caller, request, skill, record }, options);
      } catch (error) {
        await record("installs.refuse", faultFromError(error).code);
        throw error;
      }
    },
  };
}

type Recorder = (
  action: string,
  outcome: string,
  details?: Readonly<Record<string, string>>,
) => Promise<void>;

interface Run {
  readonly caller: Caller;
  readonly request: InstallRequest;
  readonly skill: CatalogueSkill;
  readonly record: Recorder;
}

async function* run(
  { caller, request, skill, record }: Run,
  options: SessionInstallsOptions,
): AsyncGenerator<InstallPart> {
  requireAllowed(caller, await findNode(skill, options), options);
  const { signal } = request;
  const client = options.links.get(skill.nodeId).client(Installs);
  const { workspace, folder, digest: skillDigest } = skill;
  const asked = { workspace, folder, skillDigest, deadlineMs: request.deadlineMs };
  const planned = await client.plan(asked, { signal, deadlineMs: planMs });
  if (!planned.plan) {
    yield { case: "nothingMissing", value: true };
    return;
  }
  const plan = requireHonest(planned, skill);
  await record("installs.plan", "ok", { planDigest: planned.digest, version: plan.version });
  yield { case: "plan", value: planned };
  const approvalId = yield* askForPlan({ caller, request, skill, plan, digest: planned.digest }, options);
  // A person has thought meanwhile: what they allowed must still be allowed.
  requireAllowed(caller, await findNode(skill, options), options);
  caller.session?.lease.check();
  await record("installs.start", "ok", { planDigest: planned.digest, approvalId });
  const limits = { signal, deadlineMs: plan.deadlineMs + afterMs };
  for await (const progress of client.apply({ digest: planned.digest, approvalId }, limits)) {
    if (progress.stage === "done")
      await record("installs.end", "ok", { planDigest: planned.digest, approvalId, version: plan.version });
    yield { case: "progress", value: progress };
  }
}

async function findNode(
  skill: CatalogueSkill,
  { nodes }: Pick<SessionInstallsOptions, "nodes">,
): Promise<NodeRecord> {
  const node = (await nodes.list()).find(({ id }) => id === skill.nodeId);
  if (node) return node;
  throw new Fault("NOT_FOUND", `the node of ${skill.name} is not paired any more`, {
    hint: "fairlead nodes ls",
  });
}

/** An install runs programs: whoever may run no command may install nothing. */
function requireAllowed(
  { agent }: Caller,
  node: NodeRecord,
  { policy }: Pick<SessionInstallsOptions, "policy">,
): void {
  const { decision, rule, side, reason, hint } = policy.decideTool({
    agent,
    node,
    name: `${node.alias}__install`,
    ownName: "install",
    effect: "execute",
  });
  if (decision !== "deny") return;
  throw new Fault("POLICY_DENIED", reason, {
    details: { rule, side, node: node.alias },
    ...(hint === undefined ? {} : { hint }),
  });
}

/** A node that asks for one thing and shows another gets nothing allowed. */
function requireHonest({ plan, digest }: InstallsPlanResponse, skill: CatalogueSkill): InstallPlan {
  const known = plan && toPlan(plan);
  const isOfSkill =
    known?.nodeId === skill.nodeId &&
    known.workspace === skill.workspace &&
    known.folder === skill.folder &&
    known.skillDigest === skill.digest;
  if (known && isOfSkill && digestOfPlan(known) === digest) return known;
  throw new Fault("INTEGRITY_FAILURE", `the plan of ${skill.owner} is not what its digest says`, {
    hint: `update fairlead on ${skill.owner}`,
  });
}

function toPlan({ $typeName: _type, $unknown: _unknown, ...plan }: WirePlan): InstallPlan {
  return plan;
}

interface Question {
  readonly caller: Caller;
  readonly request: InstallRequest;
  readonly skill: CatalogueSkill;
  readonly plan: InstallPlan;
  readonly digest: string;
}

/** Gives the approval's id; says it first where somebody is waited for. */
async function* askForPlan(
  { caller, request, skill, plan, digest }: Question,
  { approvals }: Pick<SessionInstallsOptions, "approvals">,
): AsyncGenerator<InstallPart, string> {
  const waiting = Promise.withResolvers<string>();
  const { value, version, argv, target, bins } = plan;
  const answered = approvals.ask(
    {
      title: `${caller.agent}: install ${value} on ${skill.owner}`.slice(0, 80),
      detail: JSON.stringify({
        planDigest: digest,
        skill: skill.name,
        node: skill.owner,
        recipe: plan.kind,
        package: value,
        version,
        packages: plan.packages.length,
        argv,
        target,
        bins,
      }),
      agent: caller.agent,
      sessionId: caller.session?.id,
      nodeId: skill.nodeId,
      rule: "installs.ask",
      // One's answer is no answer to another who asks for the same.
      digest: digestOf(JSON.stringify([digest, caller.agent, caller.session?.id ?? ""])),
    },
    { signal: request.signal, noWait: request.noWait, onWaiting: waiting.resolve },
  );
  const approvalId = await Promise.race([waiting.promise, answered.then(() => "")]);
  if (approvalId !== "") {
    answered.catch(() => undefined);
    yield { case: "approvalId", value: approvalId };
  }
  return await answered;
}

function createRecorder(
  { agent, session }: Caller,
  skill: CatalogueSkill,
  { audit }: Pick<SessionInstallsOptions, "audit">,
): Recorder {
  return (action, outcome, details) =>
    audit.append({
      actor: `agent:${agent}`,
      action,
      target: `skill:${skill.owner}:/${skill.workspace}/${skill.folder}`,
      outcome,
      nodeId: skill.nodeId,
      ...(session === undefined ? {} : { sessionId: session.id }),
      ...(details === undefined ? {} : { details }),
    });
}

function ownSkill(name: string): Fault {
  return new Fault("INSTALL_UNSUPPORTED", `${name} is a skill of the gateway: it has no machine of its own`, {
    hint: "install what it needs on the machine by hand, or keep the skill in a workspace there",
  });
}
