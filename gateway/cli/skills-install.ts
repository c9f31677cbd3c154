import { isFault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type {
  InstallPlan,
  InstallReceipt,
  InstallsPlanResponse,
  PlannedPackage,
} from "../../shared/gen/fairlead/v1/installs_pb.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import { confirm } from "../../shared/terminal/ask.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { openGateway } from "./open-gateway.ts";

/** `skills install-deps`. Its caller is who allows it: at a terminal they are asked, elsewhere it ends with the id. */
export const installDeps: CommandModule = {
  words: "skills install-deps",
  summary: "make present on a skill's machine what the skill needs",
  example: "fairlead skills install-deps devbox-release-notes",
  args: [{ name: "<name>", text: "the skill's name" }],
  options: [{ flags: "--session <id>", text: "as this session (default: the operator)" }],
  callsNode: true,
  run: async (input, runtime) => {
    const asked = { session: input.text("session") ?? "", skill: input.argument("name") };
    const startedAt = runtime.clock.now();
    await using gateway = await openGateway(runtime);
    const done = await installAsking(asked, { gateway, runtime });
    const json = toJson(done, runtime.clock.now() - startedAt);
    await runtime.output.result(json, () => toLines(done, asked.skill));
  },
};

const usualMs = 300_000;
const aroundMs = 240_000;

interface Asked {
  readonly session: string;
  readonly skill: string;
}

interface Parts {
  readonly gateway: Awaited<ReturnType<typeof openGateway>>;
  readonly runtime: Runtime;
}

/** What was done; neither is there when nothing was missing. */
interface Done {
  readonly plan: InstallPlan | undefined;
  readonly receipt: InstallReceipt | undefined;
}

async function installAsking(asked: Asked, parts: Parts): Promise<Done> {
  const { gateway, runtime } = parts;
  const seen: { plan?: InstallsPlanResponse } = {};
  try {
    return await install(asked, { ...parts, onPlan: (plan) => void (seen.plan = plan) });
  } catch (error) {
    const id = isFault(error, "APPROVAL_REQUIRED") ? error.details["approvalId"] : undefined;
    if (typeof id !== "string" || !seen.plan?.plan) throw error;
    for (const line of describe(seen.plan.plan, seen.plan.digest)) runtime.output.note(line);
    if (!(await confirm(runtime, "install exactly this?"))) throw error;
    await gateway.client(Admin).decideApproval({ id, allow: true }, gateway.call());
    return await install(asked, { ...parts, onPlan: () => undefined });
  }
}

async function install(
  asked: Asked,
  { gateway, runtime, onPlan }: Parts & { readonly onPlan: (plan: InstallsPlanResponse) => void },
): Promise<Done> {
  const request = { ...asked, noWait: true, deadlineMs: runtime.deadlineMs ?? 0 };
  let plan: InstallPlan | undefined;
  let receipt: InstallReceipt | undefined;
  const parts = gateway.client(Sessions).installDependencies(request, {
    signal: runtime.signal,
    // The node holds the install's own time; what is planned before and looked at behind it has some more.
    deadlineMs: Math.min((runtime.deadlineMs ?? usualMs) + aroundMs, maxDeadlineMs),
  });
  for await (const { part } of parts) {
    if (part.case === "plan") {
      ({ plan } = part.value);
      onPlan(part.value);
    }
    if (part.case !== "progress") continue;
    runtime.output.note(part.value.stage);
    receipt = part.value.receipt ?? receipt;
  }
  return { plan, receipt };
}

function describe(plan: InstallPlan, digest: string): readonly string[] {
  return [
    `skill: ${plan.skill} in /${plan.workspace}/${plan.folder}`,
    `recipe: ${plan.kind} ${plan.value}, version ${plan.version}, ${plan.packages.length} packages`,
    `source: ${findAsked(plan)?.source ?? ""}`,
    `command: ${plan.argv.join(" ")}`,
    `folder: ${plan.target}`,
    `programs: ${plan.bins.join(", ")}`,
    `digest: ${digest}`,
  ];
}

/** The package that the recipe names, among those that it needs. */
function findAsked({ value, version, packages }: InstallPlan): PlannedPackage | undefined {
  return packages.find((one) => one.version === version && value.replace(/(.)@.*$/, "$1") === one.name);
}

function toJson({ plan, receipt }: Done, durationMs: number): { readonly [key: string]: JsonValue } {
  return {
    ok: true,
    node: plan?.nodeId ?? null,
    recipe: plan?.recipe ?? null,
    version: receipt?.version ?? null,
    binaries: (receipt?.binaries ?? []).map(({ name, path, digest }) => ({ name, path, digest })),
    planDigest: receipt?.planDigest ?? null,
    durationMs,
    warnings: [],
  };
}

function toLines({ plan, receipt }: Done, skill: string): readonly string[] {
  if (!receipt || !plan) return [`${skill} has everything that it needs: nothing was done`];
  return [
    `installed ${plan.value} ${receipt.version} for ${skill}`,
    ...receipt.binaries.map(({ name, path }) => `${name}: ${path}`),
  ];
}
