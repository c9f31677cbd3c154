import type { JsonValue } from "../fault/fault.ts";
import { isMapping } from "./fields.ts";

/** The kinds of recipes, in the order in which they are preferred. */
export const recipeKinds = ["brew", "uv", "node", "go", "download"] as const;

/** What installs. */
export type RecipeKind = (typeof recipeKinds)[number];

/** How what a skill needs is made present, as its front matter says it. */
export interface Recipe {
  /** Its own name, or `<kind>-<position>`. */
  readonly id: string;
  readonly kind: RecipeKind;
  /** Formula, package, module or address. */
  readonly value: string;
  /** Binaries that are there afterwards. */
  readonly bins: readonly string[];
  /** Systems that it is for, as Node names them; empty: all. */
  readonly os: readonly string[];
}

/** A recipe that is none, with its field. */
export interface RecipeFlaw {
  readonly field: string;
  readonly message: string;
}

/** The recipes of a front matter, and what is wrong with others. */
export interface Recipes {
  readonly recipes: readonly Recipe[];
  readonly flaws: readonly RecipeFlaw[];
}

/** The field that holds the value, by kind. */
const valueFields: Readonly<Record<RecipeKind, string>> = {
  brew: "formula",
  uv: "package",
  node: "package",
  go: "module",
  download: "url",
};

const maxRecipes = 32;
const maxValueLength = 200;

const shapes: Readonly<Record<RecipeKind, RegExp>> = {
  brew: /^[a-z0-9][a-z0-9._+@-]*(?:\/[a-z0-9][a-z0-9._+@-]*){0,2}$/,
  uv: /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:==[A-Za-z0-9.!+_-]+)?$/,
  node: /^(?:@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*(?:@[0-9A-Za-z][0-9A-Za-z.+-]*)?$/,
  go: /^[a-z0-9][a-z0-9.-]*(?:\/[A-Za-z0-9._~-]+)+@v?[A-Za-z0-9][A-Za-z0-9.+-]*$/,
  download: /^https:\/\/[^\s"'`<>\\]+$/,
};

/**
 * Reads the recipes below `install` of a front matter, or of its `metadata.fairlead` or `metadata.openclaw`. One that is
 * malformed is a flaw and no recipe: what an installer is given is never guessed.
 */
export function readRecipes(frontMatter: { readonly [key: string]: JsonValue }): Recipes {
  const metadata = toMapping(frontMatter["metadata"]);
  const found = [frontMatter, toMapping(metadata["fairlead"]), toMapping(metadata["openclaw"])]
    .map((place) => (Object.hasOwn(place, "install") ? place["install"] : undefined))
    .find((value) => value !== undefined);
  if (found === undefined) return { recipes: [], flaws: [] };
  if (!Array.isArray(found))
    return { recipes: [], flaws: [{ field: "install", message: "must be a list of recipes" }] };
  const recipes: Recipe[] = [];
  const flaws: RecipeFlaw[] = [];
  for (const [at, value] of (found as readonly JsonValue[]).slice(0, maxRecipes).entries()) {
    const read = readRecipe(toMapping(value), at);
    if ("message" in read) flaws.push(read);
    else recipes.push(read);
  }
  return { recipes, flaws };
}

/** Why a recipe's value is refused; undefined for one that may be given to its installer. */
export function findValueFlaw(kind: RecipeKind, value: string): string | undefined {
  if (value === "") return "must not be empty";
  if (value.length > maxValueLength) return `has more than ${maxValueLength} characters`;
  if (value.startsWith("-")) return "must not begin with a dash";
  if (kind === "go" && !value.includes("@")) return "must name a version, as in example.org/tool@v1.2.3";
  if (!shapes[kind].test(value) || value.includes("..")) return `is no ${valueFields[kind]} of ${kind}`;
  return undefined;
}

function readRecipe(from: { readonly [key: string]: JsonValue }, at: number): Recipe | RecipeFlaw {
  const kind = recipeKinds.find((one) => one === from["kind"]);
  if (!kind) return { field: `install.${at}.kind`, message: `must be one of ${recipeKinds.join(", ")}` };
  const field = `install.${at}.${valueFields[kind]}`;
  const value = from[valueFields[kind]];
  if (typeof value !== "string") return { field, message: "must be text" };
  const flaw = findValueFlaw(kind, value);
  if (flaw !== undefined) return { field, message: flaw };
  const bins = toTexts(from["bins"]);
  if (bins.length === 0 || bins.some((name) => !/^[A-Za-z0-9][A-Za-z0-9._+-]*$/.test(name)))
    return { field: `install.${at}.bins`, message: "must name the binaries that are there afterwards" };
  const { id } = from;
  return {
    id: typeof id === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(id) ? id : `${kind}-${at}`,
    kind,
    value,
    bins,
    os: toTexts(from["os"]),
  };
}

function toTexts(value: JsonValue | undefined): readonly string[] {
  if (!Array.isArray(value)) return [];
  const texts = (value as readonly JsonValue[]).filter((item) => typeof item === "string");
  return texts.length === value.length ? texts : [];
}

function toMapping(value: JsonValue | undefined): { readonly [key: string]: JsonValue } {
  return value !== undefined && isMapping(value) ? value : {};
}
