import path from "node:path";
import { Fault, isFault, type JsonValue } from "../../shared/fault/fault.ts";
import { Sessions, type Skill } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { type CheckedFolder, checkSkillFolder } from "../../shared/skill-file/check-folder.ts";
import { instructionFileName } from "../../shared/skill-file/limits.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toWords } from "../../shared/terminal/json.ts";
import type { View } from "../../shared/terminal/output.ts";
import { openGateway } from "./open-gateway.ts";

/** What is said of one thing: a finding, or that there is none. */
interface Finding {
  readonly name: string;
  readonly state: string;
  /** With the line, where one is meant. */
  readonly place: string;
  readonly message: string;
  readonly hint: string;
}

interface Checked {
  readonly json: { readonly [key: string]: JsonValue };
  readonly findings: readonly Finding[];
  /** Files that no loader takes. */
  readonly broken: number;
}

/** The exit status of a check that found something broken: each is listed. */
const partial = 7;

/** `skills check`. */
export const check: CommandModule = {
  words: "skills check",
  summary: "what is wrong with skills: of a folder here, or without one of every machine",
  example: "fairlead skills check ./skills",
  args: [
    {
      name: "[dir]",
      text: "a skill, a folder of skills, or a workspace (default: what the machines publish)",
    },
  ],
  run: async (input, runtime) => {
    const dir = input.maybeArgument("dir");
    let checked: Checked;
    if (dir === undefined) {
      await using gateway = await openGateway(runtime);
      const { skills } = await gateway.client(Sessions).listSkills({}, gateway.call());
      checked = fromPublished(skills);
    } else {
      // Whoever has the file at hand means its folder.
      const folder = path.basename(dir) === instructionFileName ? path.dirname(dir) : dir;
      checked = fromFolder(await checkFolder(folder, runtime.signal), folder);
    }
    await runtime.output.result(checked.json, () => toView(checked));
    return checked.broken > 0 ? partial : 0;
  },
};

async function checkFolder(folder: string, signal: AbortSignal): Promise<CheckedFolder> {
  try {
    return await checkSkillFolder(path.resolve(folder), signal);
  } catch (error) {
    if (!isFault(error, "NOT_FOUND") && !isFault(error, "NOT_A_DIRECTORY")) throw error;
    const what = error.code === "NOT_FOUND" ? "there is no folder" : "this is no folder:";
    throw new Fault(error.code, `${what} ${folder}`, {
      hint: "name a skill's folder, a folder of skills, or a workspace",
      cause: error,
    });
  }
}

function fromFolder({ skills, skipped }: CheckedFolder, dir: string): Checked {
  const placeOf = (file: string, line = 0): string => `${path.join(dir, file)}${line > 0 ? `:${line}` : ""}`;
  const findings = [
    ...skills.flatMap(({ name, state, path: file, diagnostics }) =>
      toFindings({
        name,
        state,
        place: placeOf(file),
        remarks: diagnostics.map(({ line, message, hint }) => ({
          place: placeOf(file, line),
          message,
          hint,
        })),
      }),
    ),
    ...skipped.map(({ path: file, fault: { message, hint = "" } }) => ({
      name: "",
      state: "skipped",
      place: placeOf(file),
      message,
      hint,
    })),
  ];
  const broken = skills.filter(({ state }) => state === "broken").length;
  return {
    findings,
    broken,
    json: {
      broken,
      skills: skills.map(({ diagnostics, path: file, ...skill }) => ({
        ...skill,
        file: path.join(dir, file),
        diagnostics: diagnostics.map(({ severity, line, field = "", message, hint, code = "" }) => ({
          severity,
          line,
          field,
          code,
          message,
          hint,
        })),
      })),
      skipped: skipped.map(({ path: file, fault }) => ({
        file: path.join(dir, file),
        code: fault.code,
        message: fault.message,
        hint: fault.hint ?? "",
      })),
    },
  };
}

/** What machines said of theirs; what is offline or lacks something is not broken for that. */
function fromPublished(skills: readonly Skill[]): Checked {
  const findings = skills.flatMap((skill) =>
    toFindings({
      name: skill.name,
      state: skill.state,
      place: placeOf(skill),
      remarks: skill.reasons.map(({ message, hint, path: file, line }) => ({
        place: placeOf(skill, file, line),
        message,
        hint,
      })),
    }),
  );
  const broken = skills.filter(({ state }) => state === "broken").length;
  return {
    findings,
    broken,
    json: {
      broken,
      skills: skills.map((skill) => ({
        name: skill.name,
        owner: skill.owner,
        state: skill.state,
        file: placeOf(skill),
        diagnostics: skill.reasons.map(({ code, message, hint, path: file, line }) => ({
          severity: skill.state === "broken" ? "error" : "warning",
          code,
          file: placeOf(skill, file),
          line,
          message,
          hint,
        })),
      })),
      skipped: [],
    },
  };
}

/** A skill with what is said of it. */
interface Judged {
  readonly name: string;
  readonly state: string;
  readonly place: string;
  readonly remarks: readonly Pick<Finding, "place" | "message" | "hint">[];
}

/** A finding for each remark; a skill of which nothing is said is one too. */
function toFindings({ name, state, place, remarks }: Judged): readonly Finding[] {
  if (remarks.length === 0) return [{ name, state, place, message: "", hint: "" }];
  const isUsed = state === "ok" || state === "eligible";
  return remarks.map((remark) => ({ name, state: isUsed ? "warning" : state, ...remark }));
}

function placeOf({ owner, workspace, source, folder }: Skill, file = "", line = 0): string {
  const inside = file === "" ? folder : file;
  const root = workspace === "" ? source : `/${workspace}`;
  return `${owner}:${root}/${inside}${line > 0 ? `:${line}` : ""}`;
}

function toView({ findings }: Checked): View {
  return {
    columns: ["STATE", "SKILL", "PLACE", "FINDING", "REMEDY"],
    rows: findings.map(({ state, name, place, message, hint }) => [
      toWords(state),
      name,
      place,
      message,
      hint,
    ]),
    whole: ["PLACE"],
    empty: "no SKILL.md was found",
  };
}
