import { expect, test } from "vitest";
import { chooseRecipe } from "../../../node-agent/installs/choose-recipe.ts";
import { digestOfPlan, type InstallPlan } from "../../../shared/skill-file/install-plan.ts";
import { findValueFlaw, readRecipes, recipeKinds } from "../../../shared/skill-file/recipes.ts";
import { proves } from "../../support/proves.ts";

const plan: InstallPlan = {
  nodeId: "node",
  workspace: "app",
  folder: "skills/fmt",
  skill: "fmt",
  skillDigest: "sha256:00",
  recipe: "node-0",
  kind: "node",
  value: "fmt",
  version: "1.2.3",
  packages: [
    { name: "fmt", version: "1.2.3", source: "https://registry/fmt.tgz", integrity: "sha512-a" },
    { name: "words", version: "2.0.0", source: "https://registry/words.tgz", integrity: "sha512-b" },
  ],
  argv: ["npm", "ci"],
  environment: ["CI", "HOME"],
  target: "/home/node/installs/app--fmt",
  bins: ["fmt"],
  deadlineMs: 300_000,
};

proves(
  "installs.plan-digest-covers-everything",
  "equal plans have one digest in whatever order their fields are, and each difference gives another",
  () => {
    const digest = digestOfPlan(plan);
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    const reversed = Object.fromEntries(
      Object.entries(structuredClone(plan))
        .map(([key, value]): [string, unknown] => [
          key,
          key === "packages"
            ? plan.packages.map((one) => Object.fromEntries(Object.entries(one).toReversed()))
            : value,
        ])
        .toReversed(),
    ) as unknown as InstallPlan;
    expect(Object.keys(reversed)[0]).toBe("deadlineMs");
    expect(digestOfPlan(reversed)).toBe(digest);

    const [first, second] = plan.packages;
    if (!first || !second) throw new Error("the plan has two packages");
    const differences: readonly Partial<InstallPlan>[] = [
      ...(
        [
          "nodeId",
          "workspace",
          "folder",
          "skill",
          "skillDigest",
          "recipe",
          "kind",
          "value",
          "version",
          "target",
        ] as const
      ).map((field) => ({ [field]: `${plan[field]}x` })),
      ...(["name", "version", "source", "integrity"] as const).map((field) => ({
        packages: [first, { ...second, [field]: `${second[field]}x` }],
      })),
      { packages: [first] },
      { packages: [second, first] },
      { argv: ["npm", "install"] },
      { argv: ["npm ci"] },
      { environment: ["CI"] },
      { environment: ["CI", "HOMEx"] },
      { bins: ["fmt", "other"] },
      { bins: [] },
      { deadlineMs: 300_001 },
    ];
    const digests = differences.map((difference) => digestOfPlan({ ...plan, ...difference }));
    expect(new Set([digest, ...digests]).size).toBe(differences.length + 1);
  },
);

test("a recipe's value is what its installer takes, and nothing that could be taken for more", () => {
  const good = {
    brew: ["fmt", "owner/tap/fmt", "python@3.12"],
    uv: ["ruff", "ruff==0.4.1"],
    node: ["fmt", "@scope/fmt", "fmt@1.2.3", "fmt@1.2.3-beta.1"],
    go: ["example.org/tool/cmd@v1.2.3", "golang.org/x/tools/gopls@latest"],
    download: ["https://example.org/tool.tar.gz"],
  };
  for (const kind of recipeKinds) {
    for (const value of good[kind]) expect(findValueFlaw(kind, value), value).toBeUndefined();
    for (const value of [
      "",
      "-g",
      "a b",
      "a;b",
      "a\n",
      "$(x)",
      "../a",
      "/a",
      "file:a",
      "git+ssh://a",
      "a|b",
      "`a`",
    ])
      expect(findValueFlaw(kind, value), `${kind} ${value}`).toMatch(/\S/);
  }
  expect(findValueFlaw("go", "example.org/tool")).toContain("version");
  expect(findValueFlaw("download", "http://example.org/a")).toMatch(/\S/);
});

test("the first recipe in the order of kinds that fits is taken, and each before it has its reason", async () => {
  const { recipes, flaws } = readRecipes({
    install: [
      { kind: "node", package: "one", bins: ["a"], os: ["win32"] },
      { kind: "node", package: "two", bins: ["a"], id: "second" },
      { kind: "node", package: "three", bins: ["b"] },
      { kind: "brew", formula: "four", bins: ["a"] },
      { kind: "apt", package: "five", bins: ["a"] },
      { kind: "node", package: "six" },
    ],
  });
  expect(flaws.map(({ field }) => field)).toEqual(["install.4.kind", "install.5.bins"]);
  const choose = (missing: readonly string[], tools: readonly string[]) =>
    chooseRecipe(recipes, missing, {
      facts: { platform: "linux", hasBinary: async (name) => tools.includes(name) },
      order: recipeKinds,
    });
  const chosen = await choose(["a"], ["npm"]);
  expect(chosen.recipe?.id).toBe("second");
  expect(chosen.passedOver.map(({ recipe }) => recipe)).toEqual(["brew-3", "node-0"]);
  expect(await choose(["a", "b"], ["npm"])).toMatchObject({ recipe: undefined });
  expect((await choose(["a"], [])).passedOver.at(1)?.reason).toMatch(/\S/);
  expect((await choose(["a"], [])).recipe).toBeUndefined();
});
