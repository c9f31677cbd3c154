import { isDigest } from "../../shared/content/digest.ts";
import { isFaultCode } from "../../shared/fault/codes.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { type PublishedSkill as WireSkill, Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { parseWorkspaceName, type WorkspaceName } from "../../shared/names/alias.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import { isWorkspacePath } from "../../shared/names/workspace-path.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { isSkillName, maxDescriptionLength } from "../../shared/skill-file/fields.ts";
import type { FailedGate } from "../../shared/skill-file/gates.ts";
import { defaultSkillLimits } from "../../shared/skill-file/limits.ts";
import type { LiveLink } from "../link/links.ts";
import type { SkillReason } from "./catalogue-skill.ts";
import { checkFailedGates } from "./gate-reasons.ts";

/** A skill as its node published it, with everything that the node says checked. */
export interface PublishedSkill {
  readonly workspace: WorkspaceName;
  readonly folder: string;
  /** The node's own name. */
  readonly name: string;
  readonly description: string;
  readonly state: "ok" | "broken" | "skipped";
  readonly reasons: readonly SkillReason[];
  readonly digest: string;
  /** Of all its files; empty where its node does not say. */
  readonly revision: string;
  readonly frontMatterJson: string;
  /** What its machine lacks; empty for one that may be offered. */
  readonly failedGates: readonly FailedGate[];
}

/** Longest front matter that is kept, as JSON. */
const maxFrontMatterJson = 64 * 1024;
const maxReasons = 32;
const maxText = 500;
/** Most entries of one node, the skipped ones included. */
const maxEntries = 4096;

/**
 * What a node publishes, in its order. Whose a skill is follows from the link that was asked, never from what the answer
 * says; an entry that is malformed is left out, and more than the limits allow is refused as a whole.
 */
export async function readPublished(link: LiveLink): Promise<readonly PublishedSkill[]> {
  const skills: PublishedSkill[] = [];
  let ok = 0;
  for await (const part of link.client(Skills).listPublished({}, { signal: link.signal })) {
    for (const wire of part.skills) {
      const skill = check(wire);
      if (!skill) continue;
      if (skill.state === "ok") ok += 1;
      skills.push(skill);
    }
    for (const problem of part.skipped) {
      const fault = problem.fault
        ? fromWireFault(problem.fault)
        : new Fault("INTERNAL", "the node gave no reason");
      const skill = toSkipped(problem.path, fault);
      if (skill) skills.push(skill);
    }
    if (ok > defaultSkillLimits.maxSkills || skills.length > maxEntries) throw tooMany(skills.length);
  }
  return skills;
}

function check(wire: WireSkill): PublishedSkill | undefined {
  const workspace = tryWorkspaceName(wire.workspace);
  if (workspace === undefined || wire.folder === "" || !isWorkspacePath(wire.folder)) return undefined;
  const digest = isDigest(wire.digest) ? wire.digest : "";
  const reasons = wire.diagnostics.slice(0, maxReasons).map((diagnostic) => ({
    code:
      diagnostic.severity === "warning"
        ? "warning"
        : isFaultCode(diagnostic.code)
          ? diagnostic.code
          : "broken",
    message: cut(diagnostic.message),
    hint: cut(diagnostic.hint),
    path: cut(diagnostic.path),
    line: diagnostic.line,
  }));
  const revision = isDigest(wire.revision) ? wire.revision : "";
  const place = { workspace, folder: wire.folder, digest, revision };
  const isOk =
    wire.state === "ok" && isSkillName(wire.name) && digest !== "" && isDescription(wire.description);
  if (!isOk) {
    const shown = reasons.length > 0 ? reasons : [unexplained(wire.folder)];
    return {
      ...place,
      name: cut(wire.name),
      description: "",
      state: "broken",
      reasons: shown,
      frontMatterJson: "",
      failedGates: [],
    };
  }
  const frontMatterJson = isFrontMatter(wire.frontMatterJson) ? wire.frontMatterJson : "";
  return {
    ...place,
    name: wire.name,
    description: wire.description,
    state: "ok",
    reasons,
    frontMatterJson,
    failedGates: checkFailedGates(wire.failedGates),
  };
}

/** The node names what it left out as `<workspace>/<path>`. */
function toSkipped(path: string, fault: Fault): PublishedSkill | undefined {
  const slash = path.indexOf("/");
  const workspace = tryWorkspaceName(slash < 0 ? path : path.slice(0, slash));
  if (workspace === undefined) return undefined;
  const folder = cut(slash < 0 ? "" : path.slice(slash + 1));
  const reason = {
    code: fault.code,
    message: cut(fault.message),
    hint: cut(fault.hint ?? ""),
    path: folder,
    line: 0,
  };
  return {
    workspace,
    folder,
    name: folder.slice(folder.lastIndexOf("/") + 1),
    description: "",
    state: "skipped",
    reasons: [reason],
    digest: "",
    revision: "",
    frontMatterJson: "",
    failedGates: [],
  };
}

/** Where a skill stands in the order of roots of its workspace: `skills` before `.agents/skills`. */
export function compareByRoot(a: PublishedSkill, b: PublishedSkill): number {
  return rootRank(a.folder) - rootRank(b.folder) || compareByUtf8(a.folder, b.folder);
}

function rootRank(folder: string): number {
  return folder.startsWith("skills/") ? 0 : 1;
}

function isDescription(text: string): boolean {
  const length = [...text.trim()].length;
  return length > 0 && length <= maxDescriptionLength;
}

function isFrontMatter(json: string): boolean {
  if (json.length > maxFrontMatterJson) return false;
  try {
    const parsed: unknown = JSON.parse(json);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
  } catch {
    // A node that sends something else is of no more use for it than one that sends nothing.
    return false;
  }
}

function tryWorkspaceName(text: string): WorkspaceName | undefined {
  try {
    return parseWorkspaceName(text);
  } catch (error) {
    if (isFault(error)) return undefined;
    throw error;
  }
}

function unexplained(folder: string): SkillReason {
  return {
    code: "broken",
    message: "the node's description of the skill is malformed",
    hint: "update fairlead on the node",
    path: folder,
    line: 0,
  };
}

function cut(text: string): string {
  return text.length <= maxText ? text : `${text.slice(0, maxText - 1).toWellFormed()}…`;
}

function tooMany(actual: number): Fault {
  const limit = defaultSkillLimits.maxSkills;
  return new Fault("LIMIT_REACHED", `the node publishes more than ${limit} skills`, {
    details: { limit, actual },
  });
}
