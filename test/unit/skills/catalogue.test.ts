import { expect, test } from "vitest";
import { findSkill, findSkillByLocation, readSkillFile } from "../../../gateway/skills/resources.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, namesOf, published } from "../../support/published-skills.ts";

test("what a node says of its skills is checked, and what is malformed is left out or broken", async () => {
  const { catalogue, publish } = createTestCatalogue();
  await publish({ id: "devbox" }, [
    published("good"),
    published("bad", {
      state: "broken",
      description: "",
      diagnostics: [
        {
          path: "skills/bad/SKILL.md",
          line: 3,
          severity: "error",
          message: "a value holds a colon",
          hint: "quote it",
        },
      ],
    }),
    published("Bad Name", { folder: "skills/bad-name" }),
    published("no-digest", { digest: "" }),
    published("no-description", { description: "  " }),
    published("out", { folder: "../out" }),
    published("root", { folder: "" }),
    published("nowhere", { workspace: "../x" }),
  ]);
  expect(namesOf(catalogue.list())).toEqual([
    "Bad Name (broken)",
    "bad (broken)",
    "devbox-good",
    "no-description (broken)",
    "no-digest (broken)",
  ]);
  expect(findSkill(catalogue.list(), "bad")).toMatchObject({
    reasons: [{ code: "broken", line: 3, message: "a value holds a colon", hint: "quote it" }],
  });
  expect(namesOf(catalogue.view({}))).toEqual(["devbox-good"]);
});

test("a node's skills leave every view in one step when it goes, and come back as the same list", async () => {
  const { catalogue, publish, withdraw } = createTestCatalogue();
  await publish({ id: "devbox" }, [published("a"), published("b")]);
  const before = catalogue.view({});
  const whole = catalogue.list();
  withdraw("devbox");
  expect(namesOf(catalogue.view({}))).toEqual([]);
  expect(namesOf(catalogue.list())).toEqual(["devbox-a (offline)", "devbox-b (offline)"]);
  expect(catalogue.list().skills[0]?.reasons[0]).toMatchObject({
    code: "node_offline",
    hint: "fairlead nodes show devbox",
  });
  const bound = catalogue.view({ bound: { nodeId: "devbox", workspace: "app" } });
  expect(namesOf(bound)).toEqual(["a (offline)", "b (offline)"]);
  await publish({ id: "devbox" }, [published("b"), published("a")]);
  expect(catalogue.view({})).toEqual({ ...before, reason: "skills_published" });
  expect(catalogue.list().snapshot).toBe(whole.snapshot);
  withdraw("devbox", "revoked");
  expect(catalogue.list().skills).toEqual([]);
});

test("equal lists have equal snapshots in whatever order they come, and any difference another", async () => {
  const snapshotOf = async (
    skills: Parameters<ReturnType<typeof createTestCatalogue>["publish"]>[1],
  ): Promise<string> => {
    const { catalogue, publish } = createTestCatalogue();
    await publish({ id: "devbox" }, skills);
    return catalogue.list().snapshot;
  };
  const base = await snapshotOf([published("a"), published("b")]);
  expect(await snapshotOf([published("b"), published("a")])).toBe(base);
  for (const other of [
    { digest: published("c").digest ?? "" },
    { folder: "skills/x/a" },
    { workspace: "web" },
    { description: "Else." },
  ]) {
    expect(await snapshotOf([published("a", other), published("b")])).not.toBe(base);
  }
});

test("what an older link still had to say comes too late", async () => {
  const { catalogue, publish, links } = createTestCatalogue();
  const old = await publish({ id: "devbox" }, [published("old")]);
  await publish({ id: "devbox" }, [published("new")]);
  await expect(catalogue.reader.read(old, { epoch: 9n, digest: "" })).rejects.toThrow();
  expect(namesOf(catalogue.list())).toEqual(["devbox-new"]);
  expect(links.find("devbox")?.generation).toBe(2);
});

test("an unknown skill is told with the nearest name, and a location that was not shown is not found", async () => {
  const { catalogue, publish, links, withdraw } = createTestCatalogue();
  await publish({ id: "devbox" }, [published("deploy")]);
  const list = catalogue.list();
  expect(() => findSkill(list, "devbox-deplo")).toThrow(
    expect.objectContaining({ code: "NOT_FOUND", hint: "did you mean devbox-deploy?" }),
  );
  expect(findSkillByLocation(list, "skill://devbox/deploy/SKILL.md")).toMatchObject({
    skill: { name: "devbox-deploy" },
    path: "SKILL.md",
  });
  expect(findSkillByLocation(list, "skill://devbox/deploy/docs/a%20b.md")).toMatchObject({
    path: "docs/a b.md",
  });
  for (const location of [
    "skill://devbox/other/SKILL.md",
    "skill://other/deploy/SKILL.md",
    "file:///etc/passwd",
  ]) {
    expect(() => findSkillByLocation(list, location), location).toThrow(
      expect.objectContaining({ code: "NOT_FOUND" }),
    );
  }
  for (const location of [
    "skill://devbox/deploy/",
    "skill://devbox/deploy/../x",
    "skill://devbox/deploy/a%2f..%2fb",
    "skill://devbox/deploy/a%5cb",
    "skill://devbox/deploy/%",
  ]) {
    expect(() => findSkillByLocation(list, location), location).toThrow(
      expect.objectContaining({ code: "PATH_INVALID" }),
    );
  }
  withdraw("devbox");
  await expect(
    Array.fromAsync(readSkillFile({ links, list: catalogue.list(), name: "devbox-deploy" })),
  ).rejects.toMatchObject({ code: "NODE_OFFLINE" });
});

proves(
  "skills.companion-path-refused",
  "a companion path that is none is refused as text, and its node hears of nothing",
  async () => {
    const { catalogue, publish, links } = createTestCatalogue();
    await publish({ id: "devbox" }, [published("deploy")]);
    const list = catalogue.list();
    const calls = links.calls.length;
    const wrong = [
      "/etc/passwd",
      "a//b",
      "./a",
      "a/./b",
      "a/../b",
      "..",
      "link/../file",
      "a\\b",
      "a\0b",
      "a/",
      "/",
    ];
    for (const path of wrong) {
      const read = readSkillFile({ links, list, name: "devbox-deploy", path });
      await expect(Array.fromAsync(read), path).rejects.toMatchObject({ code: "PATH_INVALID" });
    }
    for (const path of ["", "%2fetc", "a%2f%2fb", "link/%2e%2e/file", "a%5cb", "a%00b", "./a"]) {
      const location = `skill://devbox/deploy/${path}`;
      expect(() => findSkillByLocation(list, location), location).toThrow(
        expect.objectContaining({ code: "PATH_INVALID" }),
      );
    }
    expect(links.calls).toHaveLength(calls);
  },
);
