import type { FileRules } from "./file-rules.ts";
import type { PolicyRules } from "./policy-file.ts";

/** One entry of the rules for files, and what it means. */
export interface EntryMeaning {
  readonly layer: string;
  readonly list: "read" | "write" | "deny";
  readonly entry: string;
  readonly meaning: string;
}

/** What an entry means, for who wonders why it did not fit. */
export function meaningOf(entry: string): string {
  const bare = entry.replace(/^(?:\.?\/)+/, "").replace(/\/$/, "");
  if (bare === "**" || bare === "") return `${entry} means everything`;
  if (!/[*?]/.test(bare)) return `${entry} means ${bare} and everything below it`;
  if (bare.endsWith("/**")) return `${entry} means ${bare.slice(0, -3)} and everything below it`;
  if (bare === "*") return `${entry} means what stands in the workspace's root itself, and nothing below it`;
  const parent = bare.slice(0, -2);
  if (!bare.endsWith("/*")) return `${entry} is a pattern: it means what fits it`;
  return `${entry} means the direct children of ${parent}, neither ${parent} itself nor what lies deeper`;
}

/** As `meaningOf`, for an entry of a list: what a deny means it also means with everything below it. */
export function meaningIn(list: EntryMeaning["list"], entry: string): string {
  const meaning = meaningOf(entry);
  const isDeep = /and everything below it$|means everything$/.test(meaning);
  return list === "deny" && !isDeep ? `${meaning}, and everything below that` : meaning;
}

const lists = ["read", "write", "deny"] as const;

/** What every entry of the rules for files means, in their order. */
export function explainEntries(rules: PolicyRules): readonly EntryMeaning[] {
  return Object.entries(rules.files ?? {}).flatMap(([layer, given]) =>
    lists.flatMap((list) =>
      (given[list] ?? []).map((entry) => ({ layer, list, entry, meaning: meaningIn(list, entry) })),
    ),
  );
}

/** What a policy allows though it may not be meant so, in words. A policy without a file has none. */
export function findWarnings(name: string, rules: PolicyRules): readonly string[] {
  const sections = [rules.tools, rules.agents, rules.nodes, rules.files];
  if (sections.every((section) => section === undefined || Object.keys(section).length === 0)) {
    return [`${name} holds no rule: it allows everything that nodes offer and their profiles allow`];
  }
  return Object.entries(rules.files ?? {})
    .filter(([, layer]) => narrowsNothing(layer))
    .map(([layer]) => `files.${layer} of ${name} holds no rule: it narrows nothing`);
}

function narrowsNothing(layer: FileRules): boolean {
  const { read, write, deny = [], ask = "off", remove = true, move = true, mkdir = true } = layer;
  return !read && !write && deny.length === 0 && ask === "off" && remove && move && mkdir;
}
