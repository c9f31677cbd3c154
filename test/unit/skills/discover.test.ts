import { appendFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { findSkills, type SkillPublication } from "../../../node-agent/skills/find-skills.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import type { RootHandle } from "../../../shared/root/root-handle.ts";
import { createKnownSkills } from "../../../shared/skill-file/known-skills.ts";
import { defaultSkillLimits, type SkillLimits } from "../../../shared/skill-file/limits.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, type Published } from "../../support/published-skills.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const skill = (name: string, body = ""): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n---\n${body}`;

async function find(root: RootHandle, limits: SkillLimits = defaultSkillLimits): Promise<SkillPublication> {
  const workspaces = [{ name: "app", root, known: createKnownSkills(systemClock) }];
  return await findSkills(workspaces, { limits, clock: systemClock, signal: new AbortController().signal });
}

function foldersOf(publication: SkillPublication): readonly (string | undefined)[] {
  return publication.skills.map(({ folder }) => folder);
}

/** A root of which one operation is another. */
function withOperation<K extends "list" | "openFile">(
  root: RootHandle,
  name: K,
  operation: RootHandle[K],
): RootHandle {
  return new Proxy(root, {
    get: (target, key) => {
      if (key === name) return operation;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** The same root, with every folder's entries in an order of chance. */
function shuffled(root: RootHandle): RootHandle {
  return withOperation(root, "list", async (...args) => {
    const listing = await root.list(...args);
    const entries = listing.entries
      .map((entry) => ({ entry, at: Math.random() }))
      .toSorted((a, b) => a.at - b.at);
    return { ...listing, entries: entries.map(({ entry }) => entry) };
  });
}

proves(
  "skills.grouping-depth",
  "groups are searched to six levels, and no order of a folder's entries changes the catalogue",
  async () => {
    await using workspace = await makeTempWorkspace({
      "skills/b/SKILL.md": skill("b"),
      "skills/b/inner/SKILL.md": skill("inner"),
      "skills/a/SKILL.md": skill("a"),
      "skills/1/2/3/4/5/six/SKILL.md": skill("six"),
      "skills/1/2/3/4/5/6/seven/SKILL.md": skill("seven"),
      "skills/.hidden/h/SKILL.md": skill("h"),
      "skills/node_modules/n/SKILL.md": skill("n"),
      "skills/group/node_modules/n/SKILL.md": skill("n"),
      "skills/group/.git/g/SKILL.md": skill("g"),
      "skills/group/z/SKILL.md": skill("z"),
      ".agents/skills/agent/SKILL.md": skill("agent"),
      "elsewhere/e/SKILL.md": skill("e"),
      "skills/SKILL.md": skill("root"),
    });
    await using root = await openRoot(workspace.path);
    const expected = await find(root);
    expect(foldersOf(expected)).toEqual([
      "skills/1/2/3/4/5/six",
      "skills/a",
      "skills/b",
      "skills/group/z",
      ".agents/skills/agent",
    ]);
    const asText = (publication: SkillPublication): string =>
      JSON.stringify(publication, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
    const catalogueOf = async (publication: SkillPublication): Promise<string> => {
      const { catalogue, publish } = createTestCatalogue();
      await publish({ id: "devbox" }, publication.skills as Published[]);
      return JSON.stringify(catalogue.list());
    };
    const catalogue = await catalogueOf(expected);
    expect(JSON.parse(catalogue).skills.map(({ name }: { name: string }) => name)).toEqual([
      "devbox-a",
      "devbox-agent",
      "devbox-b",
      "devbox-six",
      "devbox-z",
    ]);
    for (let round = 0; round < 100; round += 1) {
      const found = await find(shuffled(root));
      expect(asText(found)).toBe(asText(expected));
      expect(await catalogueOf(found)).toBe(catalogue);
    }
  },
);

proves(
  "skills.instruction-file-limit",
  "a file of the limit loads, and one byte more is broken, also when it grew while it was looked at",
  async () => {
    const limit = defaultSkillLimits.maxInstructionBytes;
    const fill = (name: string, sizeBytes: number): string =>
      skill(name, "x".repeat(sizeBytes - skill(name).length));
    await using workspace = await makeTempWorkspace({
      "skills/full/SKILL.md": fill("full", limit),
      "skills/over/SKILL.md": fill("over", limit + 1),
      "skills/small/SKILL.md": skill("small"),
      "skills/huge/SKILL.md": fill("huge", 3 * limit),
    });
    await using root = await openRoot(workspace.path);
    const stateOf = (publication: SkillPublication): Record<string, unknown> =>
      Object.fromEntries(publication.skills.map(({ name, state }) => [name, state]));
    const found = await find(root);
    expect(stateOf(found)).toEqual({ full: "ok", over: "broken", small: "ok", huge: "broken" });
    const over = found.skills.find(({ name }) => name === "over");
    expect(over?.diagnostics?.[0]?.message).toContain(`${limit + 1} bytes; at most ${limit}`);

    let largest = 0;
    const growing = withOperation(root, "openFile", async (...args) => {
      const file = await root.openFile(...args);
      const readNow = file.readNow.bind(file);
      file.readNow = (buffer, position) => {
        largest = Math.max(largest, buffer.byteLength);
        if (args[0].includes("small")) appendFileSync(workspace.join(args[0]), "y".repeat(limit));
        return readNow(buffer, position);
      };
      return file;
    });
    const grown = await find(growing);
    expect(stateOf(grown)).toMatchObject({ full: "ok", small: "broken" });
    expect(grown.skills.find(({ name }) => name === "small")?.diagnostics?.[0]?.message).toMatch(
      /bytes; at most 262144/,
    );
    expect(largest).toBeLessThanOrEqual(limit + 1);
  },
);

describe("what cannot be a skill", () => {
  test("links, FIFOs and folders in the place of files are told one by one, and the others load", async () => {
    await using outside = await makeTempWorkspace({ "SKILL.md": skill("outside") });
    await using workspace = await makeTempWorkspace({
      "skills/good/SKILL.md": skill("good"),
      "skills/folder/SKILL.md/x": "",
      "skills/linked-file/": "",
    });
    await workspace.link("skills/linked-out", outside.path);
    await workspace.link("skills/linked-in", "good");
    await workspace.link("skills/linked-file/SKILL.md", `${outside.path}/SKILL.md`);
    await using root = await openRoot(workspace.path);
    const found = await find(root);
    expect(found.skills.map(({ name, state }) => `${name} ${state}`)).toEqual([
      "folder broken",
      "good ok",
      "linked-file broken",
    ]);
    expect(found.skipped.map(({ path }) => path)).toEqual(["app/skills/linked-in", "app/skills/linked-out"]);
  });

  test("beyond the limits the first by name are published, and the others are skipped with both numbers", async () => {
    await using workspace = await makeTempWorkspace({
      "skills/c/SKILL.md": skill("c"),
      "skills/a/SKILL.md": skill("a"),
      "skills/b/SKILL.md": skill("b"),
    });
    await using root = await openRoot(workspace.path);
    const found = await find(root, { ...defaultSkillLimits, maxSkills: 2 });
    expect(foldersOf(found)).toEqual(["skills/a", "skills/b"]);
    expect(found.skipped).toMatchObject([
      { path: "app/skills/c", fault: { details: { limit: 2, actual: 3 } } },
    ]);
  });

  test("a file that did not change is not read again, and one that did is", async () => {
    await using workspace = await makeTempWorkspace({
      "skills/a/SKILL.md": skill("a"),
      "skills/b/SKILL.md": skill("b"),
    });
    await using root = await openRoot(workspace.path);
    const opened: string[] = [];
    const watched = withOperation(root, "openFile", async (...args) => {
      opened.push(args[0]);
      return await root.openFile(...args);
    });
    const workspaces = [{ name: "app", root: watched, known: createKnownSkills(systemClock) }];
    const look = async (): Promise<SkillPublication> =>
      await findSkills(workspaces, {
        limits: defaultSkillLimits,
        clock: systemClock,
        signal: new AbortController().signal,
      });
    await expect
      .poll(async () => {
        opened.length = 0;
        await look();
        return opened;
      })
      .toEqual([]);
    await workspace.write({ "skills/b/SKILL.md": skill("b", "more") });
    await look();
    // What was written a moment ago may be read once more for its digest; nothing else is.
    expect(new Set(opened)).toEqual(new Set(["skills/b/SKILL.md"]));
  });
});
