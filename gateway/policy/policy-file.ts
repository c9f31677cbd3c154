import { isNode, LineCounter, parseDocument, type Document } from "yaml";
import { z } from "zod";
import { Fault } from "../../shared/fault/fault.ts";
import type { NodeProfile } from "../pairing/nodes.ts";
import type { FileRules } from "./file-rules.ts";

/** What a scope allows and denies. Without `allow` it restricts nothing; with an empty one it allows nothing. */
export interface ToolLists {
  readonly profile?: NodeProfile | undefined;
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/** The content of a policy file. */
export interface PolicyRules {
  /** For everyone. */
  readonly tools?: ToolLists | undefined;
  /** By the agent's name. */
  readonly agents?: Readonly<Record<string, ToolLists>> | undefined;
  /** By the node's alias. */
  readonly nodes?: Readonly<Record<string, ToolLists>> | undefined;
  /**
   * By the node's id: its profile, in place of the one that it was let in with. By the id, so that a node that gets the
   * alias of an earlier one gets nothing with it.
   */
  readonly nodeProfiles?: Readonly<Record<string, NodeProfile>> | undefined;
  /** Layers of rules for files, by a name of their own; all that fit hold together. */
  readonly files?: Readonly<Record<string, FileRules>> | undefined;
}

const entry = z.string().trim().min(1).max(200);
const profile = z.enum(["read", "work", "full"]);
const nodeId = z.string().regex(/^\d[0-9a-f]{19}$/, "is no id of a node: see fairlead nodes show NODE");
const lists = z.strictObject({
  profile: profile.optional(),
  allow: z.array(entry).max(10_000).optional(),
  deny: z.array(entry).max(10_000).optional(),
});
const named = z.record(z.string().min(1).max(64), lists);
const globs = z.array(z.string().min(1).max(1_024)).max(10_000).optional();
const names = z.array(z.string().min(1).max(64)).max(10_000).optional();
const flag = z.boolean().optional();
const fileRules = z.strictObject({
  nodes: z.array(nodeId).max(10_000).optional(),
  agents: names,
  workspaces: names,
  read: globs,
  write: globs,
  deny: globs,
  ask: z.enum(["off", "on-miss", "always"]).optional(),
  remove: flag,
  move: flag,
  mkdir: flag,
});
const layerName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, "a name is 1 to 32 of a to z, 0 to 9 and hyphens");
const shape = z.strictObject({
  tools: lists.omit({ profile: true }).strict().optional(),
  agents: named.optional(),
  nodes: named.optional(),
  nodeProfiles: z.record(nodeId, profile).optional(),
  files: z.record(layerName, fileRules).optional(),
});

/** A policy file that was read. */
export interface PolicyText {
  /** For messages: the file's name. */
  readonly name: string;
  readonly text: string;
}

/** The rules of a policy file; a mistake is `INVALID_ARGUMENT` with `details.field` and `details.line`. */
export function parsePolicy({ name, text }: PolicyText): PolicyRules {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  const [flaw] = document.errors;
  if (flaw)
    throw mistake(name, { field: "", line: lines.linePos(flaw.pos[0]).line, why: firstLine(flaw.message) });
  const content: unknown = document.toJS({ maxAliasCount: 100 }) ?? {};
  const parsed = shape.safeParse(content);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const unknownKey = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const path = [...(issue?.path ?? []), ...(unknownKey === undefined ? [] : [unknownKey])];
  const why = unknownKey === undefined ? (issue?.message ?? "is not as it should be") : "is not known here";
  throw mistake(name, { field: path.join("."), line: findLine(document, path, lines), why });
}

interface Mistake {
  readonly field: string;
  readonly line: number;
  readonly why: string;
}

function mistake(name: string, { field, line, why }: Mistake): Fault {
  const what = field === "" ? "" : `${field}: `;
  return new Fault("INVALID_ARGUMENT", `${name}, line ${line}: ${what}${why}`, {
    hint: `mend line ${line} of ${name}`,
    details: { file: name, field, line },
  });
}

function findLine(document: Document, path: readonly PropertyKey[], lines: LineCounter): number {
  for (let length = path.length; length > 0; length -= 1) {
    const at = document.getIn(path.slice(0, length), true);
    if (isNode(at) && at.range) return lines.linePos(at.range[0]).line;
  }
  return 1;
}

function firstLine(text: string): string {
  return (text.split("\n")[0] ?? "").slice(0, 200);
}
