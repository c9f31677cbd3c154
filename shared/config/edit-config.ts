import { readFile } from "node:fs/promises";
import { type Document, isMap, isSeq, parseDocument } from "yaml";
import type { z } from "zod";
import { errnoOf, faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";
import { type ConfigKey, faultFromProblems, tryReadConfig } from "./read-config.ts";

/** One change of a configuration file. */
export type ConfigEdit =
  | { readonly kind: "set"; readonly key: ConfigKey; readonly value: unknown }
  | { readonly kind: "append"; readonly key: ConfigKey; readonly value: unknown }
  | { readonly kind: "remove"; readonly key: ConfigKey };

/** A file with a schema. */
export interface ConfigTarget {
  readonly file: string;
  readonly schema: z.ZodType;
}

/**
 * The text of a configuration file after some edits, comments kept. A file with mistakes, or one that would have them
 * afterwards, is `INVALID_ARGUMENT`. Nothing is written: whoever asked writes the text whole.
 */
export async function editConfig(target: ConfigTarget, edits: readonly ConfigEdit[]): Promise<string> {
  const reading = await tryReadConfig(target.file, target.schema);
  if (reading.kind === "problems") throw faultFromProblems(reading.problems);
  const document: Document = parseDocument(await readOrEmpty(target.file));
  if (!isMap(document.contents)) document.contents = document.createNode({});
  for (const edit of edits) applyEdit(document, edit);
  const checked = target.schema.safeParse(document.toJS());
  if (checked.success) return document.toString();
  const [issue] = checked.error.issues;
  throw new Fault("INVALID_ARGUMENT", `the configuration would be wrong: ${issue?.message ?? "unknown"}`, {
    details: { field: issue?.path.join(".") ?? "" },
  });
}

function applyEdit(document: Document, edit: ConfigEdit): void {
  if (edit.kind === "remove") document.deleteIn(edit.key);
  else if (edit.kind === "set") document.setIn(edit.key, document.createNode(edit.value));
  else {
    if (!isSeq(document.getIn(edit.key))) document.setIn(edit.key, document.createNode([]));
    document.addIn(edit.key, document.createNode(edit.value));
  }
}

async function readOrEmpty(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return "";
    throw faultFromErrno(error, file);
  }
}
