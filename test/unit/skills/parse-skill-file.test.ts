import { describe, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import {
  type BrokenSkill,
  type ParsedSkill,
  parseSkillFile,
} from "../../../shared/skill-file/parse-skill-file.ts";
import { proves } from "../../support/proves.ts";

const parse = (text: string, folder = "deploy"): ParsedSkill | BrokenSkill =>
  parseSkillFile(Buffer.from(text), folder);

function requireOk(skill: ParsedSkill | BrokenSkill): ParsedSkill {
  expect(skill).toMatchObject({ state: "ok" });
  return skill as ParsedSkill;
}

/** What this thread computed since: other programs on the machine do not count. */
function cpuMsSince(startedAt: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(startedAt);
  return (user + system) / 1000;
}

const minimal = [
  "---",
  "name: deploy",
  "description: Deploys it.",
  "---",
  "",
  "# Deploy",
  "  text  ",
  "",
].join("\n");

proves(
  "skills.parse-minimal-file",
  "name and description alone make a whole skill, whatever marks and line ends the file has",
  () => {
    const skill = requireOk(parse(minimal));
    expect(skill).toMatchObject({
      name: "deploy",
      description: "Deploys it.",
      userInvocable: true,
      disableModelInvocation: false,
    });
    expect(skill.frontMatter).toEqual({ name: "deploy", description: "Deploys it." });
    expect(skill.gates).toEqual({ always: false, os: [], bins: [], anyBins: [], env: [], config: [] });
    expect(skill.body.toString()).toBe("\n# Deploy\n  text  \n");
    expect(skill.diagnostics).toEqual([]);

    for (const text of [
      `\ufeff${minimal}`,
      minimal.replaceAll("\n", "\r\n"),
      `\ufeff${minimal.replaceAll("\n", "\r\n")}`,
    ]) {
      const other = requireOk(parse(text));
      expect({ ...other, body: undefined, digest: undefined }).toEqual({
        ...skill,
        body: undefined,
        digest: undefined,
      });
      expect(other.digest).toBe(digestOf(Buffer.from(text)));
      expect(other.body.toString()).toBe(text.slice(text.lastIndexOf("---") + (text.includes("\r") ? 5 : 4)));
    }
  },
);

const described = (description: string): string =>
  `---\nname: deploy\ndescription: ${JSON.stringify(description)}\n---\n`;
const named = (name: string): string => `---\n\nname: ${JSON.stringify(name)}\ndescription: Does it.\n---\n`;

proves(
  "skills.name-and-description-rule",
  "names and descriptions within the rule load, and every other is broken with field, line and rule",
  () => {
    for (const name of ["a", "7", "a-b-c", "a1-2b", "x".repeat(64)])
      expect(parse(named(name))).toMatchObject({ state: "ok", name });
    for (const name of ["", "-a", "a-", "a--b", "A", "a_b", "a b", "ä", "a\n", "x".repeat(65)]) {
      const [flaw] = parse(named(name)).diagnostics;
      expect(flaw, name).toMatchObject({ severity: "error", field: "name", line: 3 });
      expect(flaw?.message).toContain("1 to 64 characters of a to z, 0 to 9 and single hyphens");
    }
    for (const text of ["x", ` ${"x".repeat(1024)} `, "😀".repeat(1024)]) {
      expect(parse(described(text))).toMatchObject({ state: "ok", description: text.trim() });
    }
    for (const text of ["", "  ", "x".repeat(1025), "😀".repeat(1025)]) {
      const [flaw] = parse(described(text)).diagnostics;
      expect(flaw, text.slice(0, 5)).toMatchObject({ severity: "error", field: "description", line: 3 });
      expect(flaw?.message).toContain("1 to 1024");
    }
    expect(parse("---\nname: deploy\n---\n").diagnostics).toMatchObject([
      { severity: "error", field: "description" },
    ]);
  },
);

test("a skill without a name takes its folder's, and one with another name keeps its own and warns", () => {
  expect(parse("---\ndescription: Does it.\n---\n", "release-notes")).toMatchObject({
    state: "ok",
    name: "release-notes",
  });
  expect(parse("---\ndescription: Does it.\n---\n", "Release Notes")).toMatchObject({
    state: "broken",
    diagnostics: [{ field: "name" }],
  });
  expect(parse(minimal, "other")).toMatchObject({
    state: "ok",
    name: "deploy",
    diagnostics: [{ severity: "warning", line: 2, field: "name" }],
  });
});

proves(
  "skills.every-field-type-checked",
  "a known field of a wrong type breaks the skill, and an unknown one changes nothing",
  () => {
    const wrong: readonly (readonly [string, string])[] = [
      ["name: 123", "name"],
      ["description: 7", "description"],
      ["description: [a]", "description"],
      ["license: {}", "license"],
      ["compatibility: 1", "compatibility"],
      ["metadata: text", "metadata"],
      ["allowed-tools: 3", "allowed-tools"],
      ["allowed-tools: [1]", "allowed-tools"],
      ['user-invocable: "yes"', "user-invocable"],
      ["user-invocable: yes", "user-invocable"],
      ["disable-model-invocation: 1", "disable-model-invocation"],
      ["command-dispatch: true", "command-dispatch"],
      ["command-tool: ''", "command-tool"],
      ["always: 'true'", "always"],
      ["os: linux", "os"],
      ["os: [1]", "os"],
      ["requires: git", "requires"],
      ["requires: {bins: git}", "requires.bins"],
      ["requires: {bins: [/bin/git]}", "requires.bins"],
      ["requires: {anyBins: [1]}", "requires.anyBins"],
      ["requires: {env: HOME}", "requires.env"],
      ["requires: {config: true}", "requires.config"],
    ];
    for (const [line, field] of wrong) {
      const others = ["name: deploy", "description: Does it."].filter(
        (each) => !each.startsWith(`${field}:`),
      );
      const skill = parse(["---", ...others, line, "---", ""].join("\n"));
      expect(skill.state, line).toBe("broken");
      expect(skill.diagnostics, line).toContainEqual(
        expect.objectContaining({ severity: "error", field, line: others.length + 2 }),
      );
    }
    const hostile =
      "---\nname: deploy\ndescription: Does it.\n__proto__: {polluted: true}\nconstructor: {prototype: {polluted: true}}\nrequires: {__proto__: {bins: [x]}}\nhomepage: 7\n---\n";
    const skill = requireOk(parse(hostile));
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(Object.getPrototypeOf(skill.frontMatter)).toBe(Object.prototype);
    expect(Object.keys(skill.frontMatter)).toEqual([
      "name",
      "description",
      "__proto__",
      "constructor",
      "requires",
      "homepage",
    ]);
    expect(skill.gates.bins).toEqual([]);
  },
);

/** Every level repeats the one before ten times. */
function aliasBomb(): string {
  const levels = Array.from({ length: 9 }, (_, index) => {
    const below = index === 0 ? "x" : `*l${index - 1}`;
    return `k${index}: &l${index} [${Array(10).fill(below).join(", ")}]`;
  });
  return `---\nname: deploy\ndescription: Does it.\n${levels.join("\n")}\n---\n`;
}

proves(
  "skills.broken-frontmatter-table",
  "each way to break the front matter is told with line, message and hint, soon, and nothing is guessed",
  () => {
    parse(minimal);
    const table: readonly (readonly [string, string | Buffer, number])[] = [
      ["an unquoted colon", "---\nname: deploy\ndescription: Use this: now\n---\n", 3],
      ["a tab indent", "---\nname: deploy\ndescription: x\nrequires:\n\tbins: [git]\n---\n", 5],
      ["a duplicate key", "---\nname: deploy\ndescription: x\nname: other\n---\n", 4],
      ["no opening line", "name: deploy\ndescription: x\n---\n", 1],
      ["no closing line", "---\nname: deploy\ndescription: x\n\nbody\n", 1],
      ["an alias bomb", aliasBomb(), 4],
      [
        "a byte that is not UTF-8",
        Buffer.concat([
          Buffer.from("---\nname: deploy\ndescription: "),
          Buffer.of(0xff),
          Buffer.from("\n---\n"),
        ]),
        3,
      ],
    ];
    for (const [what, text, line] of table) {
      const startedAt = process.threadCpuUsage();
      const skill = parseSkillFile(Buffer.isBuffer(text) ? text : Buffer.from(text), "deploy");
      expect(cpuMsSince(startedAt), what).toBeLessThan(100);
      expect(skill.state, what).toBe("broken");
      expect(skill.diagnostics, what).toHaveLength(1);
      const [flaw] = skill.diagnostics;
      expect(flaw?.line, what).toBe(line);
      expect(flaw?.message, what).toMatch(/\S/);
      expect(flaw?.hint, what).toMatch(/\S/);
      // The file is named by whoever lists the skill: here there is only its content.
      expect(Object.keys(skill).toSorted(), what).toEqual(["diagnostics", "digest", "state"]);
    }
  },
);

describe("hostile front matter", () => {
  test.each([
    ["deep flow lists", `a: ${"[".repeat(16_000)}`],
    ["deep block lists", "- ".repeat(8000)],
    ["an anchor of itself", "a: &a [*a]"],
    ["an alias of nothing", "a: *nothing"],
    ["no fields", "- a\n- b"],
    ["an empty mapping", ""],
    ["a document end", "name: deploy\n...\ndescription: x"],
    ["more than the limit", `description: ${"x".repeat(20_000)}`],
    ["many values", Array.from({ length: 4000 }, (_, index) => `k${index.toString(36)}:`).join("\n")],
  ])("%s is broken and costs little", (_, yaml) => {
    const startedAt = process.threadCpuUsage();
    expect(parse(`---\n${yaml}\n---\n`).state).toBe("broken");
    expect(cpuMsSince(startedAt)).toBeLessThan(1000);
  });
});
