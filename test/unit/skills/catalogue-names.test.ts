import { describe, expect, test } from "vitest";
import { createStoredAssignments } from "../../../gateway/skills/stored-assignments.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { shortNameHash } from "../../../shared/names/prefixed-name.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, namesOf, published } from "../../support/published-skills.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

proves(
  "skills.long-and-equal-names",
  "a long name ends in a hash, and of two equal ones the first claimant keeps it, over restarts and gateways",
  async () => {
    await using folder = await makeTempFolder();
    const long = "x".repeat(61);
    const a = { id: "node-a", alias: "a" };
    const ab = { id: "node-ab", alias: "a-b" };
    const expected = [
      `a-b-c`,
      `a-b-c-${shortNameHash("node-ab", "c")}`,
      `a-b-${"x".repeat(51)}-${shortNameHash("node-ab", long)}`,
    ];
    {
      await using store = await openStore({ dir: folder.join("gateway") });
      const first = createTestCatalogue(createStoredAssignments(store, systemClock));
      await first.publish(a, [published("b-c")]);
      await first.publish(ab, [published("c"), published(long)]);
      const names = namesOf(first.catalogue.list());
      expect(names).toEqual(expected.toSorted());
      for (const name of names) expect(name.length).toBeLessThanOrEqual(64);

      // Another gateway on the same store, where the later claimant comes first.
      const other = createTestCatalogue(createStoredAssignments(store, systemClock));
      await other.publish(ab, [published("c"), published(long)]);
      await other.publish(a, [published("b-c")]);
      expect(namesOf(other.catalogue.list())).toEqual(names);
    }
    await using store = await openStore({ dir: folder.join("gateway") });
    const again = createTestCatalogue(createStoredAssignments(store, systemClock));
    await again.publish(ab, [published("c"), published(long)]);
    expect(namesOf(again.catalogue.list())).toEqual(expected.slice(1).toSorted());
    await again.publish(a, [published("b-c")]);
    expect(namesOf(again.catalogue.list())).toEqual(expected.toSorted());
  },
);

describe("two workspaces of one node", () => {
  test("the first export keeps the short name, and the other has its own between", async () => {
    const { catalogue, publish } = createTestCatalogue();
    await publish({ id: "devbox" }, [
      published("deploy"),
      published("deploy", { workspace: "Web_2" }),
      published("lint", { workspace: "Web_2" }),
    ]);
    expect(namesOf(catalogue.list())).toEqual(["devbox-deploy", "devbox-lint", "devbox-web-2-deploy"]);
    await publish({ id: "devbox" }, [published("deploy", { workspace: "Web_2" })]);
    expect(namesOf(catalogue.list())).toEqual(["devbox-web-2-deploy"]);
  });

  test("a session bound to one sees its own skills under plain names", async () => {
    const { catalogue, publish } = createTestCatalogue();
    await publish({ id: "devbox" }, [published("deploy"), published("deploy", { workspace: "web" })]);
    await publish({ id: "other" }, [published("deploy")]);
    const bound = { nodeId: "devbox", workspace: "web" };
    expect(namesOf(catalogue.view({ bound }))).toEqual(["deploy", "devbox-deploy", "other-deploy"]);
    expect(namesOf(catalogue.view({ bound, mayUse: (nodeId) => nodeId === "devbox" }))).toEqual([
      "deploy",
      "devbox-deploy",
    ]);
    expect(namesOf(catalogue.view({ mayUse: () => false }))).toEqual([]);
  });
});

test("of one name in two roots of a workspace `skills` wins, and the other is listed as shadowed", async () => {
  const { catalogue, publish } = createTestCatalogue();
  await publish({ id: "devbox" }, [
    published("deploy", { folder: ".agents/skills/deploy" }),
    published("deploy", { folder: "skills/group/deploy" }),
  ]);
  const [winner, loser] = catalogue.list().skills.toSorted((x, y) => x.state.localeCompare(y.state));
  expect(winner).toMatchObject({ state: "eligible", folder: "skills/group/deploy", name: "devbox-deploy" });
  expect(loser).toMatchObject({
    state: "shadowed",
    folder: ".agents/skills/deploy",
    reasons: [{ code: "shadowed", path: "skills/group/deploy" }],
  });
});

test("a name is free again when its node is gone for ever, and not when it is away", async () => {
  const { catalogue, publish, withdraw } = createTestCatalogue();
  await publish({ id: "old", alias: "devbox" }, [published("deploy")]);
  withdraw("old");
  await publish({ id: "new", alias: "devbox" }, [published("deploy")]);
  expect(catalogue.view({}).skills.map(({ name }) => name)).toEqual([
    `devbox-deploy-${shortNameHash("new", "deploy")}`,
  ]);
  withdraw("old", "revoked");
  await publish({ id: "new", alias: "devbox" }, [published("deploy")]);
  expect(namesOf(catalogue.list())).toEqual(["devbox-deploy"]);
});
