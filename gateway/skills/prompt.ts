import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { CatalogueSkill, SkillList } from "./catalogue-skill.ts";

/** What a prompt may hold. */
export interface PromptLimits {
  /** Characters of the whole text, notes included. */
  readonly maxCharacters: number;
  readonly maxSkills: number;
}

/** The limits unless a configuration says less. */
export const defaultPromptLimits: PromptLimits = { maxCharacters: 18_000, maxSkills: 150 };

/** Names the form of the text: another form is another text for equal skills. */
export const currentPromptForm = "available_skills 1";

/** How a skill stands in a prompt. */
export type PromptForm = "full" | "shortened" | "name_only" | "left_out" | "hidden";

/** The text that tells a model which skills there are. */
export interface SkillPrompt {
  /** Empty when there is no skill, or no room for one. */
  readonly text: string;
  /** How each eligible skill stands in it, by name; `hidden` for one that a model is not told of. */
  readonly forms: ReadonlyMap<string, PromptForm>;
}

/** What of a skill a prompt tells. */
export type PromptSkill = Pick<
  CatalogueSkill,
  "name" | "description" | "location" | "state" | "frontMatterJson"
>;

/** Shortest and longest description of a catalogue whose descriptions were shortened. */
const shortestDescription = 4;
const longestShortened = 220;

/**
 * The catalogue of eligible skills that a model may choose by itself, in order of their names. Over the limits
 * descriptions are shortened alike, then dropped, then skills are left out from the end; a note says how many are shown.
 * Equal skills give the equal text.
 */
export function makeSkillPrompt(
  skills: readonly PromptSkill[],
  limits: PromptLimits = defaultPromptLimits,
): SkillPrompt {
  const eligible = skills.filter((skill) => skill.state === "eligible").map(toEntry);
  const all = eligible.filter((entry) => entry.isVisible).toSorted((a, b) => compareByUtf8(a.name, b.name));
  const told = (fitting: Fitting): SkillPrompt => {
    const forms = new Map<string, PromptForm>(eligible.map((entry) => [entry.name, "hidden"]));
    for (const [position, entry] of all.entries()) forms.set(entry.name, formOf(entry, fitting, position));
    return { text: all.length > 0 && fits(fitting) ? render(all, fitting) : "", forms };
  };
  const fits = (fitting: Fitting): boolean => render(all, fitting).length <= limits.maxCharacters;
  const count = Math.min(all.length, limits.maxSkills);
  if (fits({ count, longest: Number.POSITIVE_INFINITY }))
    return told({ count, longest: Number.POSITIVE_INFINITY });
  const longest = findMost(shortestDescription, longestShortened, (most) => fits({ count, longest: most }));
  if (longest !== undefined) return told({ count, longest });
  const most = findMost(1, count, (some) => fits({ count: some, longest: 0 }));
  return told({ count: most ?? 0, longest: 0 });
}

const made = new WeakMap<SkillList, SkillPrompt>();

/** The prompt of a list within the default limits; made once for each list. */
export function promptOf(list: SkillList): SkillPrompt {
  const known = made.get(list) ?? makeSkillPrompt(list.skills);
  made.set(list, known);
  return known;
}

interface Entry {
  readonly name: string;
  readonly description: string;
  readonly location: string;
  readonly version: string;
  readonly isVisible: boolean;
}

interface Fitting {
  /** Skills shown, from the beginning. */
  readonly count: number;
  /** Most characters of a description; 0 for none. */
  readonly longest: number;
}

function toEntry(skill: PromptSkill): Entry {
  const frontMatter = readFrontMatter(skill.frontMatterJson);
  const version = frontMatter.version ?? frontMatter.metadata?.version;
  return {
    name: skill.name,
    description: skill.description,
    location: skill.location,
    version: typeof version === "string" || typeof version === "number" ? String(version) : "",
    isVisible: frontMatter["disable-model-invocation"] !== true,
  };
}

interface FrontMatter {
  readonly version?: unknown;
  readonly metadata?: { readonly version?: unknown } | undefined;
  readonly "disable-model-invocation"?: unknown;
}

function readFrontMatter(json: string): FrontMatter {
  if (json === "") return {};
  const parsed: unknown = JSON.parse(json);
  return typeof parsed === "object" && parsed !== null ? parsed : {};
}

function formOf(entry: Entry, { count, longest }: Fitting, position: number): PromptForm {
  if (position >= count) return "left_out";
  if (longest === 0) return "name_only";
  return entry.description.length > longest ? "shortened" : "full";
}

function render(all: readonly Entry[], { count, longest }: Fitting): string {
  const isCut = count < all.length || all.some((entry) => entry.description.length > longest);
  const lines = ["<available_skills>"];
  for (const entry of all.slice(0, count)) lines.push(renderEntry(entry, longest));
  if (isCut) lines.push(`<note>included ${count} of ${all.length} skills${wordsOf(longest)}</note>`);
  lines.push("</available_skills>");
  return lines.join("\n");
}

/** What was done to the descriptions, so that nobody takes a shortened one for the whole. */
function wordsOf(longest: number): string {
  if (longest === 0) return ", without descriptions";
  return Number.isFinite(longest) ? ", long descriptions shortened" : "";
}

function renderEntry(entry: Entry, longest: number): string {
  const description = longest === 0 ? "" : shorten(entry.description, longest);
  // One line a skill: what is spent on form is missing for words.
  return [
    "<skill>",
    `<name>${escapeText(entry.name)}</name>`,
    ...(description === "" ? [] : [`<description>${escapeText(description)}</description>`]),
    `<location>${escapeText(entry.location)}</location>`,
    ...(entry.version === "" ? [] : [`<version>${escapeText(entry.version)}</version>`]),
    "</skill>",
  ].join("");
}

function shorten(text: string, longest: number): string {
  return text.length <= longest
    ? text
    : `${text
        .slice(0, longest - 1)
        .toWellFormed()
        .trimEnd()}…`;
}

/** No value opens or closes an element, begins a line, or hides what it is. */
function escapeText(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;");
}

/** The largest whole number from `least` to `most` that fits, where a smaller one fits as well; undefined for none. */
function findMost(least: number, most: number, fits: (value: number) => boolean): number | undefined {
  let found: number | undefined;
  let [low, high] = [least, most];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) {
      found = middle;
      low = middle + 1;
    } else high = middle - 1;
  }
  return found;
}
