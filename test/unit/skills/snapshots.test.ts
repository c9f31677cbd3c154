import { expect, test } from "vitest";
import type { CatalogueSkill, SkillList } from "../../../gateway/skills/catalogue-skill.ts";
import { promptOf } from "../../../gateway/skills/prompt.ts";
import { snapshotOf } from "../../../gateway/skills/snapshot.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, namesOf, ownSkills, published } from "../../support/published-skills.ts";

const boxes = [{ id: "boxa" }, { id: "boxb" }] as const;

function orders<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length < 2) return [items];
  return items.flatMap((item, at) =>
    orders([...items.slice(0, at), ...items.slice(at + 1)]).map((rest) => [item, ...rest]),
  );
}

proves(
  "skills.names-stable-when-nodes-join",
  "the names of three equal skills are the same in every order of joining, leaving and coming back",
  async () => {
    const all = ["boxa-deploy", "boxb-deploy", "deploy"];
    for (const joining of orders(boxes)) {
      for (const leaving of orders(boxes)) {
        for (const returning of orders(boxes)) {
          const { catalogue, publish, withdraw } = createTestCatalogue(undefined, {
            own: ownSkills(["deploy"]),
          });
          const meant = new Map<string, string>();
          const look = (expected: readonly string[]): void => {
            const { skills } = catalogue.view({ agent: "main" });
            expect(skills.map(({ name }) => name)).toEqual(expected);
            for (const { name, owner } of skills) {
              expect([name, meant.get(name) ?? owner]).toEqual([name, owner]);
              meant.set(name, owner);
            }
          };
          look(["deploy"]);
          for (const box of joining) await publish(box, [published("deploy")]);
          look(all);
          const [first, second] = leaving;
          for (const { id } of leaving) {
            withdraw(id);
            look(
              all.filter(
                (name) => name === "deploy" || (id === first?.id && name === `${second?.id}-deploy`),
              ),
            );
          }
          for (const box of returning) await publish(box, [published("deploy")]);
          look(all);
          expect([...meant]).toEqual(
            expect.arrayContaining([
              ["deploy", "gateway"],
              ["boxa-deploy", "boxa"],
              ["boxb-deploy", "boxb"],
            ]),
          );
        }
      }
    }
  },
);

proves(
  "skills.prefix-on-collision",
  "with prefixes on collision a name stands alone until a second claims it, in every order of arrival",
  async () => {
    const options = { prefixesOnCollision: true } as const;
    for (const joining of orders(boxes)) {
      const { catalogue, publish, withdraw } = createTestCatalogue(undefined, options);
      const [first, second] = joining;
      if (!first || !second) throw new Error("two nodes are needed");
      await publish(first, [published("deploy"), published(`only-${first.id}`)]);
      expect(namesOf(catalogue.view({}))).toEqual(["deploy", `only-${first.id}`]);
      await publish(second, [published("deploy")]);
      expect(namesOf(catalogue.view({}))).toEqual(["boxa-deploy", "boxb-deploy", `only-${first.id}`]);
      expect(namesOf(catalogue.list())).toEqual(["boxa-deploy", "boxb-deploy", `only-${first.id}`]);
      withdraw(second.id, "revoked");
      expect(namesOf(catalogue.view({}))).toEqual(["deploy", `only-${first.id}`]);
    }
    for (const joining of orders(boxes)) {
      const own = { own: ownSkills(["deploy"]), ...options };
      const { catalogue, publish } = createTestCatalogue(undefined, own);
      for (const box of joining) {
        await publish(box, [published("deploy"), published(`only-${box.id}`)]);
        const { skills } = catalogue.view({});
        expect(skills.find(({ name }) => name === "deploy")?.owner).toBe("gateway");
        expect(skills.some(({ name }) => name === `${box.id}-deploy`)).toBe(true);
        expect(skills.some(({ name }) => name === `only-${box.id}`)).toBe(true);
      }
    }
  },
);

const skill = (more: Partial<CatalogueSkill> = {}): CatalogueSkill => ({
  name: "deploy",
  description: "Deploys.",
  owner: "devbox",
  nodeId: "n1",
  workspace: "app",
  source: "workspace",
  root: "",
  folder: "skills/deploy",
  state: "eligible",
  reasons: [],
  digest: digestOf("text"),
  revision: digestOf("all"),
  location: "skill://devbox/deploy/SKILL.md",
  frontMatterJson: "{}",
  ...more,
});

const other = skill({ name: "lint", folder: "skills/lint" });

proves(
  "skills.equal-inputs-equal-snapshot",
  "equal inputs have the equal snapshot whatever their order, time or gateway, and each other input has another",
  async () => {
    const base = snapshotOf([skill(), other]);
    expect(snapshotOf([other, skill()])).toBe(base);
    const failed = {
      state: "ineligible",
      reasons: [{ code: "gate_bins", message: "x", hint: "", path: "", line: 0 }],
    } as const;
    const changes: readonly Partial<CatalogueSkill>[] = [
      { name: "deploy2" },
      { owner: "other" },
      { nodeId: "n2" },
      { workspace: "web" },
      { source: "managed" },
      { root: "/elsewhere" },
      { folder: "skills/x/deploy" },
      { digest: digestOf("other text") },
      { revision: digestOf("other files") },
      failed,
    ];
    const ids = [base, ...changes.map((change) => snapshotOf([skill(change), other]))];
    ids.push(
      snapshotOf([skill(), other], { choice: { only: ["deploy"], disabled: [] } }),
      snapshotOf([skill(), other], { choice: { only: [], disabled: [] } }),
      snapshotOf([skill(), other], { choice: { only: undefined, disabled: ["x"] } }),
      snapshotOf([skill(), other], { limits: { maxCharacters: 17_999, maxSkills: 150 } }),
      snapshotOf([skill(), other], { limits: { maxCharacters: 18_000, maxSkills: 149 } }),
      snapshotOf([skill(), other], { promptForm: "another" }),
      snapshotOf([skill()]),
    );
    expect(new Set(ids).size).toBe(ids.length);

    // Two gateways, at other times, in another order.
    const made = async (names: readonly string[]): Promise<SkillList> => {
      const { catalogue, publish } = createTestCatalogue(undefined, { own: ownSkills(["own"]) });
      await publish(
        { id: "devbox" },
        names.map((name) => published(name, { revision: digestOf(name) })),
      );
      return catalogue.view({ bound: { nodeId: "devbox", workspace: "app" }, agent: "main" });
    };
    expect((await made(["b", "a"])).snapshot).toBe((await made(["a", "b"])).snapshot);

    // A companion that changed is another snapshot and the same text.
    const { catalogue, publish } = createTestCatalogue();
    await publish({ id: "devbox" }, [published("a", { revision: digestOf("before") })]);
    const before = catalogue.view({});
    await publish({ id: "devbox" }, [published("a", { revision: digestOf("after") })]);
    const after = catalogue.view({});
    expect(after.snapshot).not.toBe(before.snapshot);
    expect(promptOf(after).text).toBe(promptOf(before).text);
    expect(promptOf(after).text).toContain("devbox-a");
  },
);

proves(
  "skills.unchanged-means-no-work",
  "a second preparation with nothing changed is the same list, and no node hears of it",
  async () => {
    const { catalogue, publish, links } = createTestCatalogue(undefined, { own: ownSkills(["own"]) });
    await publish({ id: "devbox" }, [published("a"), published("b")]);
    const view = { bound: { nodeId: "devbox", workspace: "app" }, agent: "main" } as const;
    const first = catalogue.view(view);
    const calls = links.calls.length;
    expect(namesOf(first)).toEqual(["a", "b", "own"]);
    for (let turn = 0; turn < 100; turn += 1) expect(catalogue.view({ ...view })).toBe(first);
    expect(links.calls).toHaveLength(calls);
    // Something changed elsewhere, and this list did not.
    await publish({ id: "other" }, []);
    expect(catalogue.view(view).skills).toEqual(first.skills);
    expect(links.calls.slice(calls)).toEqual(["fairlead.v1.Skills/ListPublished"]);
  },
);

test("a change in one workspace makes no other list anew", async () => {
  const { catalogue, publish, links } = createTestCatalogue();
  await publish({ id: "boxa" }, [published("a")]);
  await publish({ id: "boxb" }, [published("b")]);
  const onlyA = { bound: { nodeId: "boxa", workspace: "app" }, mayUse: (id: string) => id === "boxa" };
  const onlyB = { bound: { nodeId: "boxb", workspace: "app" }, mayUse: (id: string) => id === "boxb" };
  const [a, b] = [catalogue.view(onlyA), catalogue.view(onlyB)];
  const calls = links.calls.length;
  await publish({ id: "boxa" }, [published("a", { digest: digestOf("edited") })]);
  expect(catalogue.view(onlyA).snapshot).not.toBe(a.snapshot);
  expect(catalogue.view(onlyB)).toBe(b);
  expect(links.calls.slice(calls)).toEqual(["fairlead.v1.Skills/ListPublished"]);
});
