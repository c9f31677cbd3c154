import type { Recipe, RecipeKind } from "../../shared/skill-file/recipes.ts";

/** What is known of this machine. */
export interface RecipeFacts {
  /** As Node names it. */
  readonly platform: string;
  /** Whether the commands of this machine find that program. */
  readonly hasBinary: (name: string) => Promise<boolean>;
}

/** A recipe that does not fit, with the reason. */
export interface PassedOver {
  readonly recipe: string;
  readonly reason: string;
}

/** The recipe that is taken, if any, and those before it that are not. */
export interface RecipeChoice {
  readonly recipe: Recipe | undefined;
  readonly passedOver: readonly PassedOver[];
}

/** The program of each kind; undefined for what this version does not install with. */
const tools: Readonly<Record<RecipeKind, string | undefined>> = {
  brew: undefined,
  uv: undefined,
  node: "npm",
  go: undefined,
  download: undefined,
};

/** The first recipe, in the order of kinds, that gives every missing binary and can run on this machine. */
export async function chooseRecipe(
  recipes: readonly Recipe[],
  missing: readonly string[],
  { facts, order }: { readonly facts: RecipeFacts; readonly order: readonly RecipeKind[] },
): Promise<RecipeChoice> {
  const passedOver: PassedOver[] = [];
  for (const kind of order) {
    for (const recipe of recipes.filter((one) => one.kind === kind)) {
      const reason = await findMismatch(recipe, missing, facts);
      if (reason === undefined) return { recipe, passedOver };
      passedOver.push({ recipe: recipe.id, reason });
    }
  }
  return { recipe: undefined, passedOver };
}

async function findMismatch(
  recipe: Recipe,
  missing: readonly string[],
  facts: RecipeFacts,
): Promise<string | undefined> {
  if (recipe.os.length > 0 && !recipe.os.includes(facts.platform))
    return `it is for ${recipe.os.join(", ")}, and this machine is ${facts.platform}`;
  const lacking = missing.filter((name) => !recipe.bins.includes(name));
  if (lacking.length > 0) return `it does not give ${lacking.join(", ")}`;
  const tool = tools[recipe.kind];
  if (tool === undefined) return `${recipe.kind} is not supported by this version`;
  return (await facts.hasBinary(tool)) ? undefined : `${tool} is not on the PATH of this machine's commands`;
}
