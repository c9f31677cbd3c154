import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { formatListing, type ListedItem } from "../../shared/core-tools/listing.ts";
import type { Target } from "../files/target.ts";
import type { ToolResult } from "./tool-result.ts";

/** A listing without what policy hides; the same object where nothing is hidden. */
export async function filterListing(target: Target, result: ToolResult): Promise<ToolResult> {
  const { entries, problems } = result.details;
  const [entriesLeft, problemsLeft] = [await allowed(target, entries), await allowed(target, problems)];
  if (entriesLeft.length === countOf(entries) && problemsLeft.length === countOf(problems)) return result;
  const details: JsonObject = { ...result.details, entries: entriesLeft, problems: problemsLeft };
  return { content: [{ type: "text", text: formatListing(itemsOf(details), restOf(details)) }], details };
}

const countOf = (items: JsonValue | undefined): number => (Array.isArray(items) ? items.length : 0);

async function allowed(target: Target, items: JsonValue | undefined): Promise<JsonObject[]> {
  const kept: JsonObject[] = [];
  for (const item of Array.isArray(items) ? items : []) {
    if (typeof item !== "object" || item === null || Array.isArray(item)) continue;
    const { path } = item;
    if (typeof path === "string" && !(await target.denial(path))) kept.push(item);
  }
  return kept;
}

function itemsOf({ entries, problems }: JsonObject): readonly ListedItem[] {
  const found = [...objectsOf(entries), ...objectsOf(problems)];
  return found.map(({ path, kind, sizeBytes, linkTarget, code }) => ({
    path: textOf(path) ?? "",
    kind: textOf(kind),
    sizeBytes: typeof sizeBytes === "number" ? sizeBytes : undefined,
    linkTarget: textOf(linkTarget),
    code: textOf(code),
  }));
}

function restOf({ cursor, left, moreThan }: JsonObject): Parameters<typeof formatListing>[1] {
  if (typeof cursor !== "string" || cursor === "") return undefined;
  return { cursor, left: typeof left === "number" ? left : 0, isMore: moreThan === true };
}

function objectsOf(items: JsonValue | undefined): readonly JsonObject[] {
  const all: readonly JsonValue[] = Array.isArray(items) ? items : [];
  return all.filter(
    (item): item is JsonObject => typeof item === "object" && item !== null && !Array.isArray(item),
  );
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
