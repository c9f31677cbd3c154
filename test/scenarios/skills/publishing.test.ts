import { execFile } from "node:child_process";
import { symlink } from "node:fs/promises";
import { expect, test } from "vitest";
import { listSkillNames, openTestSessions } from "../../support/open-sessions.ts";
import { programFile } from "../../support/program-file.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace, type TreeOfFiles } from "../../support/temp-workspace.ts";

const skill = (name: string, body = ""): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n---\n${body}`;

const brokenFiles: TreeOfFiles = {
  "skills/broken-colon/SKILL.md": "---\nname: broken-colon\ndescription: Use it: now\n---\n",
  "skills/broken-type/SKILL.md": "---\nname: 7\ndescription: x\n---\n",
  "skills/broken-open/SKILL.md": "name: broken-open\n",
  "skills/broken-close/SKILL.md": "---\nname: broken-close\ndescription: x\n",
  "skills/broken-bytes/SKILL.md": Buffer.concat([
    Buffer.from("---\nname: broken-bytes\ndescription: "),
    Buffer.of(0xff),
    Buffer.from("\n---\n"),
  ]),
  "skills/broken-twice/SKILL.md": "---\nname: broken-twice\nname: other\ndescription: x\n---\n",
};

/** What `skills read` writes to its output, byte for byte. */
function readBytes(home: string, args: readonly string[]): Promise<Buffer> {
  const argv = [programFile, "skills", "read", ...args, "--home", home];
  const options = { encoding: "buffer", maxBuffer: 4 * 1024 * 1024 } as const;
  return new Promise((resolve, reject) => {
    execFile(process.execPath, argv, options, (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
}

interface ListedSkill {
  readonly name: string;
  readonly state: string;
  readonly reasons: readonly {
    readonly path: string;
    readonly line: number;
    readonly message: string;
    readonly hint: string;
  }[];
}

proves(
  "skills.broken-spares-the-others",
  "six broken skills are listed with file, line and message, and the other fourteen are there",
  { timeout: 120_000 },
  async () => {
    const good = Array.from({ length: 14 }, (_, index) => `good-${String(index).padStart(2, "0")}`);
    const files = Object.fromEntries(good.map((name) => [`skills/${name}/SKILL.md`, skill(name)]));
    await using workspace = await makeTempWorkspace({ ...files, ...brokenFiles });
    await using gateway = await startGateway();
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    await using open = await openTestSessions(gateway);
    await expect.poll(() => listSkillNames(open.sessions)).toHaveLength(20);

    const opened = await open.sessions.open({ agent: "main", workspace: `${node.alias}:/app` });
    const inSession = await open.sessions.listSkills({ session: opened.session?.id ?? "" });
    expect(inSession.skills.filter(({ state }) => state === "eligible").map(({ name }) => name)).toEqual(
      good,
    );

    const { skills } = (await gateway.json(["skills", "ls"])) as { readonly skills: readonly ListedSkill[] };
    const broken = skills.filter(({ state }) => state === "broken");
    expect(broken.map(({ name }) => name)).toEqual([
      "broken-bytes",
      "broken-close",
      "broken-colon",
      "broken-open",
      "broken-twice",
      "broken-type",
    ]);
    for (const { name, reasons } of broken) {
      const [reason] = reasons;
      expect(reason, name).toMatchObject({ path: `skills/${name}/SKILL.md`, line: expect.any(Number) });
      expect(reason?.line, name).toBeGreaterThan(0);
      expect(reason?.message, name).toMatch(/\S/);
      expect(reason?.hint, name).toMatch(/\S/);
    }
    expect(skills.filter(({ state }) => state === "eligible").map(({ name }) => name)).toEqual(
      good.map((name) => `devbox-${name}`),
    );
  },
);

proves(
  "skills.published-with-prefix",
  "a node's skill stands under its prefix in sessions elsewhere, with its companions, and without a right to run commands",
  { timeout: 120_000 },
  async () => {
    const companion = "echo deploying\n".repeat(100);
    await using app = await makeTempWorkspace({
      "skills/deploy/SKILL.md": skill("deploy", "see run.sh"),
      "skills/deploy/run.sh": companion,
    });
    await using other = await makeTempWorkspace({ "README.md": "" });
    await using gateway = await startGateway();
    await using bystander = await startNode({ gateway, alias: "other", workspaces: { main: other.path } });
    await using open = await openTestSessions(gateway);
    const opened = await Promise.all(
      ["main", "second"].map(
        async () =>
          (await open.sessions.open({ agent: "main", workspace: `${bystander.alias}:/main` })).session?.id ??
          "",
      ),
    );
    await using node = await startNode({ gateway, workspaces: { app: app.path } });
    for (const session of opened) {
      await expect
        .poll(() => listSkillNames(open.sessions, session), { timeout: 20_000 })
        .toEqual(["devbox-deploy"]);
    }
    const [session = ""] = opened;
    const read = await gateway.cli(["skills", "read", "devbox-deploy", "run.sh", "--session", session]);
    expect(read).toMatchObject({ exitCode: 0, stdout: companion });
    const run = await gateway.cli([
      "tools",
      "call",
      "devbox__exec",
      "--args",
      '{"command":"true"}',
      "--session",
      session,
      "--json",
    ]);
    expect(run.exitCode).not.toBe(0);

    const own = await open.sessions.open({ agent: "main", workspace: `${node.alias}:/app` });
    expect(await listSkillNames(open.sessions, own.session?.id)).toEqual(["deploy"]);
  },
);

test(
  "a skill that is added, edited, renamed or removed is seen soon, and all of them go with their node",
  { timeout: 120_000 },
  async () => {
    await using workspace = await makeTempWorkspace({
      "skills/one/SKILL.md": skill("one"),
      ".agents/skills/two/SKILL.md": skill("two"),
    });
    await using gateway = await startGateway();
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    await using open = await openTestSessions(gateway);
    const names = (): Promise<readonly string[]> => listSkillNames(open.sessions);
    await expect.poll(names).toEqual(["devbox-one", "devbox-two"]);
    const before = (await open.sessions.listSkills({})).snapshot;

    await workspace.write({ "skills/group/three/SKILL.md": skill("three") });
    await expect.poll(names).toEqual(["devbox-one", "devbox-three", "devbox-two"]);
    await workspace.write({ "skills/one/SKILL.md": skill("first") });
    await expect.poll(names).toEqual(["devbox-first", "devbox-three", "devbox-two"]);
    await workspace.move("skills/group/three", "skills/four");
    await workspace.write({ "skills/four/SKILL.md": skill("four") });
    await expect.poll(names).toEqual(["devbox-first", "devbox-four", "devbox-two"]);
    await workspace.remove("skills/four");
    await workspace.write({ "skills/one/SKILL.md": skill("one") });
    await expect.poll(names).toEqual(["devbox-one", "devbox-two"]);
    expect((await open.sessions.listSkills({})).snapshot).toBe(before);

    await node.kill("SIGTERM");
    await expect.poll(names).toEqual(["devbox-one (offline)", "devbox-two (offline)"]);
    await node.restart();
    await expect.poll(names).toEqual(["devbox-one", "devbox-two"]);
    expect((await open.sessions.listSkills({})).snapshot).toBe(before);
  },
);

proves(
  "skills.ls-gives-reasons",
  "each skill has its place and state, and what is not eligible says why and what mends it; a session also says when and why",
  { timeout: 120_000 },
  async () => {
    await using workspace = await makeTempWorkspace({
      "skills/fine/SKILL.md": skill("fine"),
      "skills/by-name/SKILL.md": "---\nname: by-name\ndescription: x\ndisable-model-invocation: true\n---\n",
      "skills/lacking/SKILL.md":
        "---\nname: lacking\ndescription: x\nrequires: {bins: [no-such-tool]}\n---\n",
      "skills/broken/SKILL.md": "---\nname: broken\n---\n",
      ".agents/skills/other/SKILL.md": skill("fine"),
      "skills/huge/SKILL.md": skill("huge", "x".repeat(300_000)),
    });
    await symlink("/etc", workspace.join("skills/outside"));
    await using gateway = await startGateway();
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    await using open = await openTestSessions(gateway);
    await expect.poll(() => listSkillNames(open.sessions)).toContain("devbox-fine");

    type Listed = ListedSkill & {
      readonly owner: string;
      readonly source: string;
      readonly promptForm: string;
    };
    const list = async (...more: readonly string[]): Promise<{ readonly skills: readonly Listed[] }> =>
      (await gateway.json(["skills", "ls", ...more])) as { readonly skills: readonly Listed[] };
    const { skills } = await list();
    expect(Object.fromEntries(skills.map((one) => [`${one.name} ${one.source}`, one.state]))).toEqual({
      "devbox-by-name devbox:/app/skills/by-name": "eligible",
      "devbox-fine devbox:/app/skills/fine": "eligible",
      "devbox-lacking devbox:/app/skills/lacking": "ineligible",
      "broken devbox:/app/skills/broken": "broken",
      "fine devbox:/app/.agents/skills/other": "shadowed",
      "huge devbox:/app/skills/huge": "broken",
      "outside devbox:/app/skills/outside": "skipped",
    });
    const requireReasons = (listed: readonly Listed[]): void => {
      for (const { name, owner, state, reasons } of listed) {
        expect(owner).toBe("devbox");
        if (state === "eligible") continue;
        expect(reasons, name).not.toEqual([]);
        expect(reasons[0], name).toMatchObject({
          code: expect.stringMatching(/./),
          hint: expect.stringMatching(/./),
        });
      }
    };
    requireReasons(skills);

    const before = Date.now();
    const opened = await open.sessions.open({ agent: "main", workspace: `${node.alias}:/app` });
    const session = ["--session", opened.session?.id ?? ""];
    const own = await list(...session);
    requireReasons(own.skills);
    expect(own).toMatchObject({
      snapshotId: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      builtAt: expect.stringMatching(/Z$/),
      buildReason: "first_use",
      prompt: expect.stringContaining("<name>fine</name>"),
    });
    expect(own).not.toHaveProperty("staleSince");
    const { builtAt, prompt } = own as unknown as { readonly builtAt: string; readonly prompt: string };
    expect(Date.parse(builtAt)).toBeGreaterThanOrEqual(before - 1);
    expect(prompt).not.toContain("by-name");
    // One that the prompt left out says so, alone as in the list.
    const shown = await gateway.json(["skills", "show", "by-name", ...session]);
    expect(shown).toMatchObject({
      ...own.skills.find(({ name }) => name === "by-name"),
      promptForm: "hidden",
    });
    expect(shown).toMatchObject({ builtAt, buildReason: "first_use" });
    const lacking = await gateway.json(["skills", "show", "lacking", ...session]);
    expect(lacking).toMatchObject({ state: "ineligible", reasons: [{ code: "gate_bins" }] });

    await node.kill("SIGTERM");
    await expect.poll(() => list(...session)).toHaveProperty("staleSince");
    const away = await list(...session);
    requireReasons(away.skills);
    expect(away.skills.map(({ state }) => state)).toEqual(away.skills.map(() => "offline"));
    expect(away).toMatchObject({ buildReason: "node_offline" });
    const { staleSince } = away as unknown as { readonly staleSince: string };
    expect(Date.parse(staleSince)).toBeGreaterThanOrEqual(Date.parse(builtAt));
  },
);

proves(
  "skills.read-prints-the-owners-bytes",
  "instructions and companions come byte for byte, and what cannot be read says why",
  { timeout: 120_000 },
  async () => {
    const instructions = `\ufeff${skill("deploy", "text\r\n\r\nwith ends of all kinds \0 and no newline at the end")}`;
    const companion = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256));
    await using workspace = await makeTempWorkspace({
      "skills/deploy/SKILL.md": instructions,
      "skills/deploy/data/blob.bin": companion,
    });
    await using gateway = await startGateway();
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    await using open = await openTestSessions(gateway);
    await expect.poll(() => listSkillNames(open.sessions)).toEqual(["devbox-deploy"]);

    expect(await readBytes(gateway.home, ["devbox-deploy"])).toEqual(Buffer.from(instructions));
    expect(await readBytes(gateway.home, ["devbox-deploy", "data/blob.bin"])).toEqual(companion);

    const unknown = await gateway.cli(["skills", "read", "devbox-deply"]);
    expect(unknown.exitCode).toBe(4);
    expect(unknown.stderr).toMatch(/\(NOT_FOUND\)\nhint: .*devbox-deploy/);
    await node.kill("SIGTERM");
    await expect.poll(() => listSkillNames(open.sessions)).toEqual(["devbox-deploy (offline)"]);
    const away = await gateway.cli(["skills", "read", "devbox-deploy"]);
    expect(away.exitCode).toBe(5);
    expect(away.stderr).toContain("(NODE_OFFLINE)");
  },
);
