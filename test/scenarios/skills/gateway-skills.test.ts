import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listSkillNames, openTestSessions, type TestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 120_000 };
/** Everything here comes from a watch, which a busy machine may bring late. */
const soon = { timeout: 30_000 };

const skill = (name: string, lines = "", body = `Text of ${name}.`): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n${lines}---\n${body}`;

let place: TempFolder;
let gateway: TestGateway;
let open: TestSessions;
let boxes: readonly { readonly node: TestNode; readonly workspace: TempWorkspace }[];
let sessions: Readonly<Record<string, string>>;

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}

const own = (path: string): string => place.join("home/gateway", path);

async function startBox(alias: string, binary: string): Promise<(typeof boxes)[number]> {
  const workspace = await makeTempWorkspace({
    "skills/deploy/SKILL.md": skill("deploy", "", `deploy of ${alias}`),
    [`skills/only-${alias}/SKILL.md`]: skill(`only-${alias}`),
  });
  const bin = place.join(`bin-${alias}`);
  await write(join(bin, binary), "#!/bin/sh\n");
  await chmod(join(bin, binary), 0o755);
  const home = place.join(`home-${alias}`);
  await mkdir(join(home, "node"), { recursive: true, mode: 0o700 });
  await writeFile(
    join(home, "node/config.yaml"),
    `path: ${bin}\nworkspaces:\n  - name: app\n    dir: ${workspace.path}\n    read: ['**']\n`,
  );
  return { workspace, node: await startNode({ gateway, alias, home }) };
}

beforeAll(async () => {
  place = await makeTempFolder();
  await write(own("skills/deploy/SKILL.md"), skill("deploy", "", "deploy of the gateway"));
  await write(own("skills/deploy/run.sh"), "echo managed\n");
  await write(own("skills/plain/SKILL.md"), skill("plain"));
  await write(own("skills/needs-fmt/SKILL.md"), skill("needs-fmt", "requires:\n  bins: [fmt-of-a]\n"));
  await write(own("skills/broken/SKILL.md"), "name: broken\n");
  await write(own("workshop/main/mine/SKILL.md"), skill("mine"));
  await write(own("workshop/main/bundled-too/SKILL.md"), skill("bundled-too", "", "of the workshop"));
  await write(place.join("bundled/bundled-too/SKILL.md"), skill("bundled-too", "", "bundled"));
  await write(place.join("bundled/plain/SKILL.md"), skill("plain", "", "bundled plain"));
  await write(place.join("bundled/deploy/SKILL.md"), skill("deploy", "", "bundled deploy"));
  await write(place.join("extra/last/SKILL.md"), skill("last"));
  await write(
    place.join("config.yaml"),
    [
      "skills:",
      "  disabled: [last]",
      "  load:",
      `    bundledDir: ${place.join("bundled")}`,
      `    extraDirs: [${place.join("extra")}]`,
      "agents:",
      "  main: { profile: work }",
      "  picky: { profile: work, skills: [plain, boxb-deploy, nowhere] }",
      "  bare: { profile: work, skills: [] }",
      "",
    ].join("\n"),
  );
  gateway = await startGateway({ home: place.join("home"), args: ["--config", place.join("config.yaml")] });
  boxes = [await startBox("boxa", "fmt-of-a"), await startBox("boxb", "fmt-of-b")];
  open = await openTestSessions(gateway);
  const opened = async (agent: string, workspace: string): Promise<string> =>
    (await open.sessions.open({ agent, workspace })).session?.id ?? "";
  sessions = {
    mainA: await opened("main", "boxa:/app"),
    mainB: await opened("main", "boxb:/app"),
    pickyA: await opened("picky", "boxa:/app"),
    bareA: await opened("bare", "boxa:/app"),
  };
}, 120_000);

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  for (const { node, workspace } of boxes) {
    await node[Symbol.asyncDispose]();
    await workspace[Symbol.asyncDispose]();
  }
  await gateway[Symbol.asyncDispose]();
  await place[Symbol.asyncDispose]();
}, 60_000);

interface Shown {
  readonly name: string;
  readonly owner: string;
  readonly state: string;
  readonly source: string;
  readonly kind: string;
  readonly location: string;
  readonly reasons: readonly { readonly code: string; readonly message: string; readonly path: string }[];
}

async function show(session: string): Promise<readonly Shown[]> {
  const args = session === "" ? [] : ["--session", session];
  return ((await gateway.json(["skills", "ls", ...args])) as { readonly skills: readonly Shown[] }).skills;
}

async function read(name: string, session: string, file?: string): Promise<string> {
  const args = ["skills", "read", name, ...(file === undefined ? [] : [file]), "--session", session];
  const { stdout, exitCode } = await gateway.cli(args);
  return exitCode === 0 ? stdout : `exit ${exitCode}`;
}

proves(
  "skills.precedence-across-hosts",
  "a workspace's own skill stands before the gateway's of its name, and another machine's keeps its prefix",
  patience,
  async () => {
    const { mainA = "", mainB = "" } = sessions;
    await expect.poll(() => listSkillNames(open.sessions, mainA), soon).toContain("boxb-deploy");
    await expect.poll(() => listSkillNames(open.sessions, mainB), soon).toContain("boxa-deploy");
    for (const [session, mine, other] of [
      [mainA, "boxa", "boxb"],
      [mainB, "boxb", "boxa"],
    ] as const) {
      const skills = await show(session);
      const named = skills.filter(({ name }) => name === "deploy");
      expect(named.map(({ state, source }) => `${source} ${state}`).toSorted()).toEqual([
        `${mine}:/app/skills/deploy eligible`,
        "gateway:bundled/deploy shadowed",
        "gateway:managed/deploy shadowed",
      ]);
      for (const { owner, reasons, location } of named) {
        if (owner !== "gateway") continue;
        expect(reasons[0]).toMatchObject({ code: "shadowed", path: `${mine}:/app/skills/deploy` });
        expect(location).toBe("");
      }
      expect(skills.find(({ name }) => name === `${other}-deploy`)).toMatchObject({
        owner: other,
        state: "eligible",
        kind: "node",
      });
      expect(skills.some(({ name }) => name === `${mine}-deploy`)).toBe(false);
      expect(await read("deploy", session)).toContain(`deploy of ${mine}`);
      expect(await read(`${other}-deploy`, session)).toContain(`deploy of ${other}`);
    }
    // Among the gateway's own the order of roots decides, whoever asks.
    const everything = await show("");
    const plain = everything.filter(({ name }) => name === "plain");
    expect(plain.map(({ source, state }) => `${source} ${state}`).toSorted()).toEqual([
      "gateway:bundled/plain shadowed",
      "gateway:managed/plain eligible",
    ]);
    expect(plain.find(({ state }) => state === "shadowed")?.reasons[0]).toMatchObject({
      path: "gateway:managed/plain",
    });
    expect(everything.find(({ name }) => name === "deploy")).toMatchObject({ owner: "gateway" });
    // A machine that says it is another, or the gateway, stays what it is: its node comes back in the other order.
    const [first] = boxes;
    await first?.node.kill("SIGTERM");
    await expect.poll(() => listSkillNames(open.sessions, mainB), soon).not.toContain("boxa-deploy");
    expect(
      (await show(mainB)).filter(({ name, state }) => name === "deploy" && state === "eligible"),
    ).toMatchObject([{ owner: "boxb" }]);
    await first?.node.restart();
    await expect.poll(() => listSkillNames(open.sessions, mainB), soon).toContain("boxa-deploy");
    expect(await read("deploy", mainB)).toContain("deploy of boxb");
  },
);

proves(
  "skills.gateway-skill-gated-where-commands-run",
  "a gateway's skill is judged by the machine of the session's workspace, which the reason names",
  patience,
  async () => {
    const { mainA = "", mainB = "" } = sessions;
    const find = async (session: string): Promise<Shown | undefined> =>
      (await show(session)).find(({ name }) => name === "needs-fmt");
    await expect.poll(async () => (await find(mainA))?.state, soon).toBe("eligible");
    await expect.poll(async () => (await find(mainB))?.reasons[0]?.code, soon).toBe("gate_bins");
    const onB = await find(mainB);
    expect(onB?.state).toBe("ineligible");
    expect(onB?.reasons[0]?.message).toContain("fmt-of-a");
    expect(onB?.reasons[0]?.message).toContain("boxb");
    // An operating system's gate goes the same way: another system is none of either machine.
    await write(own("skills/for-plan9/SKILL.md"), skill("for-plan9", "os: [plan9]\n"));
    await expect
      .poll(
        async () => (await show(mainA)).find(({ name }) => name === "for-plan9")?.reasons[0]?.message,
        soon,
      )
      .toContain("boxa");
  },
);

test("a workshop is its agent's alone, and all of the gateway's roots are followed", patience, async () => {
  const { mainA = "", pickyA = "" } = sessions;
  const first = await show(mainA);
  expect(first.find(({ name }) => name === "mine")).toMatchObject({ kind: "workshop", state: "eligible" });
  expect(
    first.filter(({ name }) => name === "bundled-too").map(({ kind, state }) => `${kind} ${state}`),
  ).toEqual(["bundled shadowed", "workshop eligible"]);
  expect(await read("bundled-too", mainA)).toContain("of the workshop");
  expect((await show(pickyA)).some(({ name }) => name === "mine")).toBe(false);
  expect(first.find(({ name }) => name === "broken")).toMatchObject({ state: "broken", owner: "gateway" });

  await write(own("workshop/main/mine/SKILL.md"), skill("mine", "", "edited"));
  await expect
    .poll(async () => {
      await show(mainA);
      return await read("mine", mainA);
    }, soon)
    .toContain("edited");
  await write(own("skills/added/SKILL.md"), skill("added"));
  await expect.poll(() => listSkillNames(open.sessions, mainA), soon).toContain("added");
  await rm(own("skills/added"), { recursive: true });
  await expect.poll(() => listSkillNames(open.sessions, mainA), soon).not.toContain("added");
  expect(await read("deploy", mainA, "run.sh")).toBe("exit 4");
  const operator = await gateway.cli(["skills", "read", "deploy", "run.sh"]);
  expect(operator).toMatchObject({ exitCode: 0, stdout: "echo managed\n" });
});

test("an agent's list replaces the inherited one, and what is disabled says so", patience, async () => {
  const { mainA = "", pickyA = "", bareA = "" } = sessions;
  const eligible = async (session: string): Promise<readonly string[]> =>
    (await show(session)).filter(({ state }) => state === "eligible").map(({ name }) => name);
  await expect.poll(() => eligible(pickyA), soon).toEqual(["boxb-deploy", "plain"]);
  expect(await eligible(bareA)).toEqual([]);
  const unlisted = (await show(bareA)).find(({ source }) => source === "gateway:managed/plain");
  expect(unlisted?.reasons[0]?.code).toBe("not_listed");
  expect((await show(mainA)).find(({ name }) => name === "last")).toMatchObject({
    state: "ineligible",
    reasons: [{ code: "disabled" }],
  });
  expect(await read("last", mainA)).toBe("exit 4");
});

test("no machine is called what the gateway's own skills are owned by", patience, async () => {
  for (const args of [
    ["nodes", "rename", "boxb", "gateway"],
    ["invite", "--name", "gateway"],
  ]) {
    const { exitCode, json } = await gateway.cli([...args, "--json"]);
    expect({ exitCode, json }).toMatchObject({
      exitCode: 6,
      json: { error: { code: "ALREADY_EXISTS", message: "the gateway itself is called gateway" } },
    });
  }
});
