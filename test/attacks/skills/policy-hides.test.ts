import { afterAll, beforeAll, expect, test } from "vitest";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { openTestSessions, type TestSessions } from "../../support/open-sessions.ts";

const skill = (name: string): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n---\nText of ${name}.`;

let pair: FilesPair;
let open: TestSessions;
let session = "";

beforeAll(async () => {
  pair = await startFilesPair({
    files: {
      "skills/closed/SKILL.md": skill("closed"),
      "skills/open/SKILL.md": skill("open"),
      "skills/open/shut.md": "a companion that is shut",
      "skills/open/read.md": "a companion to be read",
    },
    config: "agents:\n  main: { profile: work }\n",
  });
  open = await openTestSessions(pair.gateway);
  session = (await open.sessions.open({ agent: "main", workspace: "devbox:/app" })).session?.id ?? "";
}, 120_000);

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
}, 60_000);

async function names(): Promise<readonly string[]> {
  return (await open.sessions.listSkills({ session })).skills.map(({ name }) => name);
}

async function read(name: string, file?: string): Promise<string> {
  const args = [
    "skills",
    "read",
    name,
    ...(file === undefined ? [] : [file]),
    "--session",
    session,
    "--json",
  ];
  const { json } = await pair.gateway.cli(args);
  const answer = json as { text?: string; error?: { code: string } };
  return answer.text ?? answer.error?.code ?? "";
}

test(
  "rules for files hold for the files of skills, from the next call on",
  { timeout: 120_000 },
  async () => {
    await expect.poll(names, { timeout: 30_000 }).toEqual(["closed", "open"]);
    expect(await read("open", "shut.md")).toBe("a companion that is shut");
    for (const rule of [
      "deny: ['skills/closed/**', '**/shut.md']",
      "ask: always, deny: ['skills/closed/**', '**/shut.md']",
      "read: ['skills/open/SKILL.md', 'skills/open/read.md']",
    ]) {
      await pair.setPolicy(`files:\n  shut: { agents: [main], ${rule} }\n`);
      // What the session was shown before is no way around it.
      expect(await read("closed")).toBe("NOT_FOUND");
      if (rule.startsWith("ask")) {
        expect(await names()).toEqual([]);
        // The session is shown its skills again, before the next rule takes some away.
        await pair.setPolicy("files: {}\n");
        expect(await names()).toEqual(["closed", "open"]);
        continue;
      }
      expect([rule, await read("open", "shut.md")]).toEqual([rule, "POLICY_DENIED"]);
      expect(await read("open", "read.md")).toBe("a companion to be read");
      expect(await read("open")).toContain("Text of open");
      expect(await names()).toEqual(["open"]);
      const { files } = await open.sessions.listSkillFiles({ session, name: "open" });
      expect(files.map(({ path }) => path)).toEqual(["SKILL.md", "read.md"]);
      const { prompt } = await open.sessions.listSkills({ session });
      expect(prompt).toContain("open");
      expect(prompt).not.toContain("closed");
    }
    await pair.setPolicy("files: {}\n");
    expect(await names()).toEqual(["closed", "open"]);
  },
);
