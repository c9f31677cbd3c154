import { expect, test } from "vitest";
import { parseSkillFile } from "../../shared/skill-file/parse-skill-file.ts";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

const skill = (lines: string): string => `---\n${lines}\n---\ntext\n`;
const described = "description: Does it.";

proves(
  "skills.folder-name-is-fallback",
  "a skill without a name has its folder's, under the same rule, and a name that differs wins with a warning",
  { timeout: 60_000 },
  async () => {
    const parse = (lines: string, folder: string) => parseSkillFile(Buffer.from(skill(lines)), folder);
    expect(parse(described, "deploy")).toMatchObject({ state: "ok", name: "deploy", diagnostics: [] });
    for (const folder of ["Deploy", "de--ploy", "-deploy", "deploy_all", "d".repeat(65)]) {
      expect(parse(described, folder), folder).toMatchObject({
        state: "broken",
        diagnostics: [{ field: "name", severity: "error", hint: expect.stringMatching(/rename the folder/) }],
      });
    }
    expect(parse(described, "d".repeat(64))).toMatchObject({ state: "ok" });
    expect(parse(`name: ship\n${described}`, "Any Folder")).toMatchObject({ state: "ok", name: "ship" });

    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({
      "skills/deploy/SKILL.md": skill(described),
      "skills/group/other/SKILL.md": skill(`${described}\nname: ship`),
    });
    const checked = await runCli(["skills", "check", workspace.path], { home: home.path });
    expect([checked.exitCode, checked.stderr]).toEqual([0, ""]);
    expect(checked.stdout.split("\n")).toEqual([
      expect.stringMatching(/^ok\tdeploy\t.*\/skills\/deploy\/SKILL\.md\t\t$/),
      expect.stringMatching(
        /^warning\tship\t.*\/skills\/group\/other\/SKILL\.md:3\t.*differs.*\trename.*ship$/,
      ),
      "",
    ]);
  },
);

test(
  "a skill, a folder of skills and a workspace are checked, without a gateway",
  { timeout: 60_000 },
  async () => {
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({
      "skills/good/SKILL.md": skill(`name: good\n${described}`),
      "skills/colon/SKILL.md": "---\nname: colon\ndescription: Use it: now\n---\n",
      ".agents/skills/open/SKILL.md": "name: open\n",
      "node_modules/skills/hidden/SKILL.md": "no",
    });
    const check = async (...args: readonly string[]) =>
      await runCli(["skills", "check", ...args], { home: home.path, cwd: workspace.path });
    const whole = await check(".", "--json");
    expect([whole.exitCode, whole.json]).toEqual([
      7,
      {
        broken: 2,
        skills: [
          expect.objectContaining({
            name: "colon",
            file: "skills/colon/SKILL.md",
            state: "broken",
            diagnostics: [
              expect.objectContaining({ severity: "error", line: 3, hint: expect.stringMatching(/quotes/) }),
            ],
          }),
          expect.objectContaining({ name: "good", state: "ok", description: "Does it.", diagnostics: [] }),
          expect.objectContaining({ name: "open", file: ".agents/skills/open/SKILL.md", state: "broken" }),
        ],
        skipped: [],
      },
    ]);
    expect(await check("skills")).toMatchObject({
      exitCode: 7,
      stdout: expect.stringMatching(/^broken\tcolon\tskills\/colon\/SKILL\.md:3\t/),
    });
    for (const one of ["skills/good", "skills/good/SKILL.md"]) {
      expect(await check(one)).toMatchObject({ exitCode: 0, stdout: "ok\tgood\tskills/good/SKILL.md\t\t\n" });
    }
    expect(await check("skills/colon")).toMatchObject({ exitCode: 7 });
    const absent = await check("nowhere");
    expect([absent.exitCode, absent.stderr]).toEqual([
      4,
      "error: there is no folder nowhere (NOT_FOUND)\nhint: name a skill's folder, a folder of skills, or a workspace\n",
    ]);
  },
);
