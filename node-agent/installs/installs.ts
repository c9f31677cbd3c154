import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { createQueue } from "../../shared/flow/queue.ts";
import {
  Installs,
  type InstallReceiptSchema,
  type InstallsApplyResponseSchema,
  type InstallsPlanRequest,
  type InstallsPlanResponseSchema,
} from "../../shared/gen/fairlead/v1/installs_pb.ts";
import type { PublishedSkill } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Environment } from "../../shared/process/environment.ts";
import { findBinary } from "../../shared/process/find-binary.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";
import { isMapping } from "../../shared/skill-file/fields.ts";
import { readGates } from "../../shared/skill-file/gates.ts";
import { digestOfPlan, type InstallPlan } from "../../shared/skill-file/install-plan.ts";
import { readRecipes, type Recipe, recipeKinds } from "../../shared/skill-file/recipes.ts";
import { OneAtATime } from "../workers/one-at-a-time.ts";
import { chooseRecipe, type PassedOver } from "./choose-recipe.ts";
import {
  installLocked,
  lockPackage,
  npmInstallArguments,
  type NpmLock,
  type NpmOptions,
  npmVariables,
} from "./npm.ts";
import { createPrefixes, type Prefixes, verifyBinaries, writeReceipt } from "./prefixes.ts";

/** What a machine lets be installed on it. */
export interface InstallSettings {
  readonly allow: boolean;
  /** The registry that npm asks. */
  readonly registry: string;
}

/** What `createInstalls` takes. */
export interface InstallsOptions {
  /** Where prefixes lie: `<home>/node/installs`. */
  readonly dir: string;
  readonly nodeId: string;
  /** Asked at each call, so that a changed configuration holds at once. */
  readonly settings: () => InstallSettings;
  /** `PATH` of commands, the prefixes included. */
  readonly path: () => string;
  /** The machine's own `PATH`: installers come from there, never from what was installed for a skill. */
  readonly machinePath: () => string;
  readonly environment: Environment;
  /** A skill that this machine publishes, as it is now. */
  readonly findSkill: (
    workspace: string,
    folder: string,
    signal: AbortSignal,
  ) => Promise<PublishedSkill | undefined>;
  /** After something was installed, before its receipt is answered. */
  readonly onInstalled: () => Promise<void>;
  readonly clock: Clock;
}

/** Installs on this machine. Calls end with their own signals; there is nothing else to end. */
export interface MachineInstalls {
  readonly service: ServedService;
}

/** Time limits of an install, in milliseconds. */
export const installLimits: {
  readonly runMs: number;
  readonly maxRunMs: number;
  readonly planLifeMs: number;
} = {
  runMs: 300_000,
  maxRunMs: 86_400_000,
  planLifeMs: 3_600_000,
};

/** Stages of one install that are not read yet; there are fewer. */
const maxStages = 16;

/** Plans that are kept until somebody allows them; the oldest goes first. */
const maxPlans = 32;

/** Folders with the binaries that were installed for the skills of a machine whose installs lie in `dir`. */
export function installedBinFolders(dir: string): readonly string[] {
  return createPrefixes(dir).binFolders();
}

/** `Installs` of this machine; what an agent before has left half done is removed. */
export async function createInstalls(options: InstallsOptions): Promise<MachineInstalls> {
  const prefixes = createPrefixes(options.dir);
  await prefixes.sweep();
  const machine = new Machine(options, prefixes);
  return {
    service: serve(Installs, {
      plan: (request, { signal }) => machine.plan(request, signal),
      apply: ({ digest, approvalId }, { signal }) => machine.apply(digest, { approvalId, signal }),
    }),
  };
}

interface KeptPlan {
  readonly plan: InstallPlan;
  readonly lock: NpmLock;
  readonly madeMs: number;
}

type ApplyPart = MessageInitShape<typeof InstallsApplyResponseSchema>;

class Machine {
  readonly #options: InstallsOptions;
  readonly #prefixes: Prefixes;
  readonly #plans = new Map<string, KeptPlan>();
  readonly #turns = new OneAtATime();

  constructor(options: InstallsOptions, prefixes: Prefixes) {
    this.#options = options;
    this.#prefixes = prefixes;
  }

  async plan(
    request: InstallsPlanRequest,
    signal: AbortSignal,
  ): Promise<MessageInitShape<typeof InstallsPlanResponseSchema>> {
    this.#requireAllowed();
    const skill = await this.#requireSkill(request, signal);
    const frontMatter = JSON.parse(skill.frontMatterJson) as JsonValue;
    const fields = isMapping(frontMatter) ? frontMatter : {};
    const missing = await this.#findMissing(readGates(fields));
    if (missing.length === 0) return {};
    const { recipes, flaws } = readRecipes(fields);
    const flawed = flaws.map(({ field, message }) => ({ recipe: field, reason: `${field} ${message}` }));
    const choice = await chooseRecipe(recipes, missing, {
      facts: {
        platform: process.platform,
        hasBinary: async (name) => (await findBinary(name, this.#options.machinePath())) !== undefined,
      },
      order: recipeKinds,
    });
    const passedOver = [...flawed, ...choice.passedOver];
    if (!choice.recipe) throw unsupported(skill.name, missing, passedOver);
    const deadlineMs = toDeadline(request.deadlineMs);
    const npm = await this.#npm(signal);
    const lock = await lockPackage(choice.recipe.value, { ...npm, timeoutMs: deadlineMs });
    const plan = this.#toPlan({ skill, recipe: choice.recipe, lock, deadlineMs, npm });
    const digest = digestOfPlan(plan);
    this.#keep(digest, { plan, lock, madeMs: this.#options.clock.now() });
    return { plan: toWirePlan(plan), digest, passedOver: [...passedOver] };
  }

  async *apply(
    digest: string,
    { approvalId, signal }: { readonly approvalId: string; readonly signal: AbortSignal },
  ): AsyncGenerator<ApplyPart> {
    yield { stage: "queued" };
    using stages = createQueue<ApplyPart>(maxStages);
    const say = (part: ApplyPart): void => void stages.push(part);
    const done = this.#turns.run(signal, () => this.#install(digest, { approvalId, signal, say }));
    done.then(
      () => stages.close(),
      () => stages.close(),
    );
    try {
      yield* stages;
      yield { stage: "done", receipt: await done };
    } finally {
      // Whoever leaves has ended it by its signal; what it has staged is gone before this is over.
      await done.catch(() => undefined);
    }
  }

  async #install(
    digest: string,
    at: {
      readonly approvalId: string;
      readonly signal: AbortSignal;
      readonly say: (part: ApplyPart) => void;
    },
  ): Promise<MessageInitShape<typeof InstallReceiptSchema>> {
    const { signal, say, approvalId } = at;
    this.#requireAllowed();
    const { plan, lock } = this.#requirePlan(digest);
    await this.#requireSkill({ ...plan }, signal);
    const npm = await this.#npm(signal);
    requireSameCommand(plan, commandOf(npm));
    const startedMs = this.#options.clock.now();
    await using staging = await this.#prefixes.stage();
    say({ stage: "installing" });
    await installLocked(lock, staging.dir, { ...npm, timeoutMs: plan.deadlineMs });
    say({ stage: "verifying" });
    const binaries = await verifyBinaries(staging.dir, plan.bins);
    say({ stage: "publishing" });
    const durationMs = this.#options.clock.now() - startedMs;
    const receipt = {
      planDigest: digest,
      approvalId,
      kind: plan.kind,
      version: plan.version,
      startedMs,
      durationMs,
    };
    await writeReceipt(staging.dir, { ...receipt, binaries });
    signal.throwIfAborted();
    const current = await this.#prefixes.publish(staging, keyOf(plan), digest.slice("sha256:".length, 23));
    await this.#options.onInstalled();
    return {
      ...receipt,
      startedMs: BigInt(startedMs),
      durationMs: BigInt(durationMs),
      binaries: binaries.map((binary) => ({ ...binary, path: `${current}/${binary.path}` })),
    };
  }

  #requireAllowed(): void {
    if (this.#options.settings().allow) return;
    throw new Fault("INSTALL_REFUSED", "this machine lets nothing be installed", {
      details: { side: "node", rule: "installs.allow" },
      hint: "on the node, set installs: {allow: true} in the file that fairlead node config check names",
    });
  }

  async #requireSkill(
    { workspace, folder, skillDigest }: Pick<InstallsPlanRequest, "workspace" | "folder" | "skillDigest">,
    signal: AbortSignal,
  ): Promise<PublishedSkill> {
    const skill = await this.#options.findSkill(workspace, folder, signal);
    if (!skill || skill.state !== "ok")
      throw new Fault("NOT_FOUND", `there is no skill in /${workspace}/${folder}`, {
        hint: "fairlead skills ls",
      });
    if (skill.digest === skillDigest) return skill;
    throw new Fault("CONFLICT", `the skill ${skill.name} was changed meanwhile`, {
      details: { expected: skillDigest, actual: skill.digest },
      hint: "read it again, and repeat the command",
    });
  }

  #requirePlan(digest: string): KeptPlan {
    const kept = this.#plans.get(digest);
    if (kept && this.#options.clock.now() - kept.madeMs < installLimits.planLifeMs) return kept;
    this.#plans.delete(digest);
    throw new Fault("CONFLICT", "the plan is not known here any more", {
      details: { planDigest: digest },
      hint: "repeat the command: it is planned anew",
    });
  }

  async #findMissing({ bins, anyBins }: ReturnType<typeof readGates>): Promise<readonly string[]> {
    const has = async (name: string): Promise<boolean> =>
      (await findBinary(name, this.#options.path())) !== undefined;
    const missing: string[] = [];
    for (const name of bins) if (!(await has(name))) missing.push(name);
    const any = await Promise.all(anyBins.map(has));
    const [first] = anyBins;
    if (first !== undefined && !any.includes(true)) missing.push(first);
    return missing;
  }

  async #npm(signal: AbortSignal) {
    const { environment, settings } = this.#options;
    const searched = this.#options.machinePath();
    const npm = await findBinary("npm", searched);
    if (npm === undefined)
      throw new Fault("INSTALL_UNSUPPORTED", "npm is not on the PATH of this machine's commands");
    return { own: environment, path: searched, npm, registry: settings().registry, signal };
  }

  #toPlan(from: PlanParts): InstallPlan {
    const { skill, recipe, lock, deadlineMs, npm } = from;
    const { workspace, folder, name, digest } = skill;
    return {
      nodeId: this.#options.nodeId,
      workspace,
      folder,
      skill: name,
      skillDigest: digest,
      recipe: recipe.id,
      kind: recipe.kind,
      value: recipe.value,
      version: lock.version,
      packages: lock.packages,
      argv: commandOf(npm),
      environment: npmVariables,
      target: this.#prefixes.folderOf(keyOf({ workspace, skill: name })),
      bins: recipe.bins,
      deadlineMs,
    };
  }

  #keep(digest: string, kept: KeptPlan): void {
    this.#plans.delete(digest);
    this.#plans.set(digest, kept);
    for (const oldest of this.#plans.keys()) {
      if (this.#plans.size <= maxPlans) break;
      this.#plans.delete(oldest);
    }
  }
}

interface PlanParts {
  readonly skill: PublishedSkill;
  readonly recipe: Recipe;
  readonly lock: NpmLock;
  readonly deadlineMs: number;
  readonly npm: InstallerPlace;
}

/** Which npm is run, and which registry it asks. */
type InstallerPlace = Pick<NpmOptions, "npm" | "registry">;

function commandOf({ npm, registry }: InstallerPlace): readonly string[] {
  return [npm, ...npmInstallArguments(registry)];
}

/** The machine's configuration or its npm may be another one than when it was planned. */
function requireSameCommand({ argv }: InstallPlan, now: readonly string[]): void {
  if (argv.join("\0") === now.join("\0")) return;
  throw new Fault("CONFLICT", "the machine would install with another command than was planned", {
    details: { expected: argv.join(" "), actual: now.join(" ") },
    hint: "repeat the command: it is planned anew",
  });
}

/** Names of workspaces and skills are names of files too. */
function keyOf({ workspace, skill }: Pick<InstallPlan, "workspace" | "skill">): string {
  return `${workspace}--${skill}`;
}

function toDeadline(askedMs: number): number {
  if (askedMs === 0) return installLimits.runMs;
  if (askedMs <= installLimits.maxRunMs) return askedMs;
  throw new Fault("INVALID_ARGUMENT", `an install may take ${installLimits.maxRunMs} ms at most`, {
    details: { field: "deadlineMs", limit: installLimits.maxRunMs, actual: askedMs },
  });
}

function toWirePlan(plan: InstallPlan) {
  const { packages, argv, environment, bins, ...rest } = plan;
  return {
    ...rest,
    packages: packages.map((one) => ({ ...one })),
    argv: [...argv],
    environment: [...environment],
    bins: [...bins],
  };
}

function unsupported(skill: string, missing: readonly string[], passedOver: readonly PassedOver[]): Fault {
  const why = passedOver.map(({ recipe, reason }) => `${recipe}: ${reason}`).join("; ");
  return new Fault(
    "INSTALL_UNSUPPORTED",
    `${skill} lacks ${missing.join(", ")}, and ${why === "" ? "has no recipe for it" : `no recipe fits: ${why}`}`,
    {
      details: { missing: [...missing], recipes: passedOver.map((one) => ({ ...one })) },
      hint: `install ${missing[0] ?? ""} on that machine by hand`,
    },
  );
}
