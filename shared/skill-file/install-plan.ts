import { digestOf, type Digest } from "../content/digest.ts";

/** One package of a plan, fixed. */
export interface PlannedPackage {
  readonly name: string;
  readonly version: string;
  /** Where its bytes come from. */
  readonly source: string;
  /** The registry's own hash of them, as a subresource integrity. */
  readonly integrity: string;
}

/** Everything that a person allows when they allow an install; whatever differs is another plan. */
export interface InstallPlan {
  readonly nodeId: string;
  readonly workspace: string;
  /** The skill's folder in the workspace. */
  readonly folder: string;
  readonly skill: string;
  /** Digest of the skill's instruction file, which holds the recipe. */
  readonly skillDigest: string;
  /** The recipe by its id, kind and value. */
  readonly recipe: string;
  readonly kind: string;
  readonly value: string;
  /** The version that it came to. */
  readonly version: string;
  readonly packages: readonly PlannedPackage[];
  readonly argv: readonly string[];
  /** Names of the variables that the installer gets. */
  readonly environment: readonly string[];
  /** Where it goes, on the machine. */
  readonly target: string;
  readonly bins: readonly string[];
  readonly deadlineMs: number;
}

/** The digest of a plan: equal for equal plans, in whatever order their fields are, and another for any difference. */
export function digestOfPlan(plan: InstallPlan): Digest {
  const { packages } = plan;
  return digestOf(
    JSON.stringify([
      "install plan 1",
      plan.nodeId,
      plan.workspace,
      plan.folder,
      plan.skill,
      plan.skillDigest,
      plan.recipe,
      plan.kind,
      plan.value,
      plan.version,
      packages.map(({ name, version, source, integrity }) => [name, version, source, integrity]),
      plan.argv,
      plan.environment,
      plan.target,
      plan.bins,
      plan.deadlineMs,
    ]),
  );
}
