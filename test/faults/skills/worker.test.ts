import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findSkills } from "../../../node-agent/skills/find-skills.ts";
import { readMachineFacts } from "../../../node-agent/skills/gate-facts.ts";
import { startSkills, type SkillsHost, type SkillsNotice } from "../../../node-agent/skills/skills.ts";
import { Skills } from "../../../shared/gen/fairlead/v1/skills_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import { createKnownSkills } from "../../../shared/skill-file/known-skills.ts";
import { defaultSkillLimits } from "../../../shared/skill-file/limits.ts";
import { createDirectLinks } from "../../support/direct-link.ts";
import { toExport } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 120_000;
const skill = (name: string, body = ""): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n---\n${body}`;

interface Started extends AsyncDisposable {
  readonly host: SkillsHost;
  readonly notices: readonly SkillsNotice[];
  readonly names: () => Promise<readonly string[]>;
}

async function start(workspace: TempWorkspace): Promise<Started> {
  const notices: SkillsNotice[] = [];
  const host = await startSkills({
    workspaces: () => ({
      workspaces: [toExport("app", workspace.path)],
      homeDir: workspace.join("../no-such-home"),
      limits: { treeEntries: 1_000_000, treeDepth: 64 },
    }),
    publish: (notice) => void notices.push(notice),
    environment: { HOME: "/", PATH: "/usr/bin:/bin" },
    facts: () =>
      readMachineFacts({ environment: {}, path: () => "/usr/bin:/bin", configuration: () => ({}) }),
    log: silentLog,
  });
  const link = createDirectLinks().connect({ nodeId: "devbox", services: [host.service] });
  return {
    host,
    notices,
    names: async () => {
      const parts = await Array.fromAsync(link.client(Skills).listPublished({}));
      return parts.flatMap(({ skills }) => skills.map(({ name, state }) => `${name} ${state}`));
    },
    [Symbol.asyncDispose]: () => host[Symbol.asyncDispose](),
  };
}

test(
  "a worker that is killed is followed by another within five seconds, and changes are seen again",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "skills/one/SKILL.md": skill("one") });
    await using started = await start(workspace);
    await expect.poll(started.names).toEqual(["one ok"]);
    await expect.poll(() => started.notices.length).toBe(1);
    for (const name of ["two", "three"]) {
      const { pid } = started.host;
      process.kill(pid ?? 0, "SIGKILL");
      expect(await started.names()).toContain("one ok");
      expect(started.host.pid).not.toBe(pid);
      const before = started.notices.length;
      await workspace.write({ [`skills/${name}/SKILL.md`]: skill(name) });
      await expect.poll(() => started.notices.length, { timeout: 20_000 }).toBeGreaterThan(before);
    }
    expect(await started.names()).toEqual(["one ok", "three ok", "two ok"]);
    const epochs = started.notices.map(({ epoch }) => epoch);
    expect(epochs).toEqual(epochs.toSorted((a, b) => Number(a - b)));
  },
);

test(
  "a worker holds no more of the environment than HOME and PATH, and may neither write nor start programs",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "skills/one/SKILL.md": skill("one") });
    await using started = await start(workspace);
    await expect.poll(started.names).toEqual(["one ok"]);
    const pid = started.host.pid ?? 0;
    const names = readFileSync(`/proc/${pid}/environ`, "utf8")
      .split("\0")
      .filter(Boolean)
      .map((entry) => entry.split("=")[0]);
    expect(new Set(names)).toEqual(new Set(["HOME", "PATH"]));
    const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    expect(argv).toContain("--permission");
    expect(
      argv.filter((argument) => argument.startsWith("--allow-") && !argument.startsWith("--allow-fs-read=")),
    ).toEqual([]);
    expect(argv.filter((argument) => argument.startsWith("--allow-fs-read=/proc"))).toEqual([
      "--allow-fs-read=/proc/self/fd/",
    ]);
  },
);

test("a worker ends with its agent", { timeout }, async () => {
  await using workspace = await makeTempWorkspace({ "skills/one/SKILL.md": skill("one") });
  const started = await start(workspace);
  await expect.poll(started.names).toEqual(["one ok"]);
  const pid = started.host.pid ?? 0;
  await started[Symbol.asyncDispose]();
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

proves(
  "skills.atomic-save-never-absent",
  "during 1,000 saves by rename a search in a tight loop never finds the skill missing, empty or broken",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "skills/one/SKILL.md": skill("one") });
    await using root = await openRoot(workspace.path);
    const workspaces = [{ name: "app", root, known: createKnownSkills(systemClock) }];
    const options = { limits: defaultSkillLimits, clock: systemClock };
    let isSaving = true;
    const saving = saveByRename(workspace.join("skills")).finally(() => {
      isSaving = false;
    });
    let searches = 0;
    while (isSaving) {
      const found = await findSkills(workspaces, { ...options, signal: new AbortController().signal });
      expect(found.skipped).toEqual([]);
      expect(found.skills.map(({ name, state, diagnostics }) => ({ name, state, diagnostics }))).toEqual([
        { name: "one", state: "ok", diagnostics: [] },
      ]);
      searches += 1;
      await systemClock.sleep(0);
    }
    await saving;
    expect(searches).toBeGreaterThan(20);
  },
);

/** A process of its own that saves the skill a thousand times, each time beside its place and then by a rename. */
function saveByRename(folder: string): Promise<void> {
  const program = `
    const { renameSync, writeFileSync } = require("node:fs");
    for (let save = 0; save < 1000; save += 1) {
      writeFileSync(${JSON.stringify(`${folder}/.next`)}, ${JSON.stringify(skill("one"))} + "x".repeat(save * 7));
      renameSync(${JSON.stringify(`${folder}/.next`)}, ${JSON.stringify(`${folder}/one/SKILL.md`)});
    }`;
  return new Promise((resolve, reject) => {
    execFile(process.execPath, ["-e", program], (error) => (error ? reject(error) : resolve()));
  });
}
