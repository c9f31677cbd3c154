import { digestOf, type Digest } from "../content/digest.ts";
import type { JsonValue } from "../fault/fault.ts";
import { parseBoundedYaml, toObject, type YamlFields } from "./bounded-yaml.ts";
import { type Diagnostic, hasError } from "./diagnostic.ts";
import { checkFields, isSkillName, nameRule } from "./fields.ts";
import { isDiagnostic, type SplitFile, splitFrontMatter } from "./front-matter.ts";
import { readGates, type SkillGates } from "./gates.ts";

/** An instruction file that was understood. */
export interface ParsedSkill {
  readonly state: "ok";
  readonly name: string;
  /** Trimmed. */
  readonly description: string;
  readonly userInvocable: boolean;
  readonly disableModelInvocation: boolean;
  readonly gates: SkillGates;
  /** Every field as it was written, unknown ones too. */
  readonly frontMatter: { readonly [key: string]: JsonValue };
  /** The bytes behind the front matter, unchanged. */
  readonly body: Buffer;
  /** Of the file's bytes as they were read. */
  readonly digest: Digest;
  /** Warnings. */
  readonly diagnostics: readonly Diagnostic[];
}

/** An instruction file that was not understood: no field of it is believed. */
export interface BrokenSkill {
  readonly state: "broken";
  /** Of the file's bytes, where they were read. */
  readonly digest?: Digest;
  /** At least one error. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads the bytes of a `SKILL.md`. `folderName` is the skill's name when the front matter gives none. */
export function parseSkillFile(bytes: Buffer, folderName: string): ParsedSkill | BrokenSkill {
  const digest = digestOf(bytes);
  const split = splitFrontMatter(bytes);
  if (isDiagnostic(split)) return { state: "broken", digest, diagnostics: [split] };
  const fields = parseBoundedYaml(split.yaml, split.firstLine);
  if ("severity" in fields) return { state: "broken", digest, diagnostics: [fields] };
  const diagnostics = [
    ...checkFields(fields.values, fields.lines),
    ...checkPresence(fields, folderName),
  ].toSorted((a, b) => a.line - b.line);
  if (hasError(diagnostics)) return { state: "broken", digest, diagnostics };
  return { ...readSkill(fields, { split, folderName }), digest, diagnostics };
}

function checkPresence(fields: YamlFields, folderName: string): readonly Diagnostic[] {
  const flaws: Diagnostic[] = [];
  const name = fields.values.get("name");
  if (!fields.values.has("description")) {
    flaws.push({
      severity: "error",
      line: 1,
      field: "description",
      message: "the field description is missing",
      hint: "say in a sentence or two what the skill does and when to use it",
    });
  }
  if (name === undefined && !isSkillName(folderName)) {
    flaws.push({
      severity: "error",
      line: 1,
      field: "name",
      message: `there is no field name, and the folder's name is no skill name: ${nameRule}`,
      hint: "add a field name, or rename the folder",
    });
  }
  if (typeof name === "string" && isSkillName(name) && name !== folderName) {
    flaws.push({
      severity: "warning",
      line: fields.lines.get("name") ?? 0,
      field: "name",
      message: "the name differs from the folder's; the name counts",
      hint: `rename the folder to ${name}`,
    });
  }
  return flaws;
}

function readSkill(
  fields: YamlFields,
  from: { readonly split: SplitFile; readonly folderName: string },
): Omit<ParsedSkill, "digest" | "diagnostics"> {
  const { values } = fields;
  const frontMatter = toObject(values);
  return {
    state: "ok",
    name: (values.get("name") as string | undefined) ?? from.folderName,
    description: (values.get("description") as string).trim(),
    userInvocable: values.get("user-invocable") !== false,
    disableModelInvocation: values.get("disable-model-invocation") === true,
    gates: readGates(frontMatter),
    frontMatter,
    body: from.split.body,
  };
}
