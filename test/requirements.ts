import { filesBench } from "./requirements/files-bench.ts";
import { filesWatch } from "./requirements/files-watch.ts";
import { files } from "./requirements/files.ts";
import { fleet } from "./requirements/fleet.ts";
import { installs } from "./requirements/installs.ts";
import { link } from "./requirements/link.ts";
import { memory } from "./requirements/memory.ts";
import { pairing } from "./requirements/pairing.ts";
import { plugins } from "./requirements/plugins.ts";
import { policy } from "./requirements/policy.ts";
import { sessions } from "./requirements/sessions.ts";
import { skills } from "./requirements/skills.ts";
import { tools } from "./requirements/tools.ts";

/** A promise that the project has taken on: the id that its proofs name, and the sentence that they assert. */
export interface Requirement {
  readonly id: string;
  readonly says: string;
}

type Taken =
  | (typeof files)[number]
  | (typeof filesBench)[number]
  | (typeof filesWatch)[number]
  | (typeof fleet)[number]
  | (typeof installs)[number]
  | (typeof link)[number]
  | (typeof memory)[number]
  | (typeof pairing)[number]
  | (typeof plugins)[number]
  | (typeof policy)[number]
  | (typeof sessions)[number]
  | (typeof skills)[number]
  | (typeof tools)[number];

/** The ids of the promises taken on: a proof of anything else is a type error. */
export type RequirementId = Taken["id"];

/** Every promise taken on, feature by feature. */
export const requirements: readonly Requirement[] = [
  ...files,
  ...filesBench,
  ...filesWatch,
  ...fleet,
  ...installs,
  ...link,
  ...memory,
  ...pairing,
  ...plugins,
  ...policy,
  ...sessions,
  ...skills,
  ...tools,
];
