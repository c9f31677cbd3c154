import { afterAll, beforeAll, expect } from "vitest";
import { openTestSessions, type TestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 120_000 };
/** What a watch brings may be late on a busy machine. */
const soon = { timeout: 30_000 };

const skill = (name: string, body: string): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\n---\n${body}`;

let gateway: TestGateway;
let workspace: TempWorkspace;
let node: TestNode;
let open: TestSessions;

beforeAll(async () => {
  gateway = await startGateway();
  workspace = await makeTempWorkspace({
    "skills/held/SKILL.md": skill("held", "text before"),
    "skills/held/read.md": "companion before",
    "skills/held/unread.md": "unread before",
    "skills/quiet/SKILL.md": skill("quiet", "quiet"),
    "skills/quiet/tool.sh": "echo\n",
    "skills/going/SKILL.md": skill("going", "going"),
  });
  node = await startNode({ gateway, workspaces: { app: workspace.path } });
  open = await openTestSessions(gateway);
}, 120_000);

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
  await workspace[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
}, 60_000);

async function openSession(): Promise<string> {
  const opened = await open.sessions.open({ agent: "main", workspace: "devbox:/app" });
  return opened.session?.id ?? "";
}

/** The digest that the gateway shows everybody now, which prepares no session. */
async function digestNow(name: string): Promise<string> {
  const { skills } = await open.sessions.listSkills({ session: "" });
  return skills.find((one) => one.name === `devbox-${name}`)?.digest ?? "";
}

/** The id of the snapshot of a session, prepared now. */
async function prepare(session: string): Promise<string> {
  return (await open.sessions.listSkills({ session })).snapshot;
}

function read(name: string, session: string, file = ""): Promise<CliResult> {
  return gateway.cli([
    "skills",
    "read",
    name,
    ...(file === "" ? [] : [file]),
    "--session",
    session,
    "--json",
  ]);
}

async function textOf(name: string, session: string, file = ""): Promise<string> {
  const { exitCode, json } = await read(name, session, file);
  const answer = json as { text?: string; error?: { code: string } };
  return exitCode === 0 ? (answer.text ?? "") : (answer.error?.code ?? "");
}

proves(
  "skills.snapshot-bytes-hold",
  "a running turn reads what its snapshot names, and never new bytes under the old one",
  patience,
  async () => {
    const session = await openSession();
    await expect.poll(() => digestNow("held"), soon).toMatch(/^sha256:/u);
    const snapshot = await prepare(session);
    expect(await textOf("held", session, "read.md")).toBe("companion before");
    const before = await digestNow("held");
    await workspace.write({
      "skills/held/SKILL.md": skill("held", "text after"),
      "skills/held/read.md": "companion after",
      "skills/held/unread.md": "unread after",
    });
    await expect.poll(() => digestNow("held"), soon).not.toBe(before);
    // The turn goes on: nothing was prepared anew.
    expect(await textOf("held", session)).toContain("text before");
    expect(await textOf("held", session, "read.md")).toBe("companion before");
    const { exitCode, json } = await read("held", session, "unread.md");
    expect({ exitCode, json }).toMatchObject({
      exitCode: 6,
      json: {
        error: {
          code: "CONFLICT",
          details: {
            expected: expect.stringMatching(/^sha256:/u),
            actual: expect.stringMatching(/^sha256:/u),
          },
        },
      },
    });
    const { details } = (json as { error: { details: { expected: string; actual: string } } }).error;
    expect(details.expected).not.toBe(details.actual);
    // The next turn has the new files, all of them.
    await expect.poll(() => prepare(session), soon).not.toBe(snapshot);
    await expect
      .poll(async () => {
        await prepare(session);
        return await Promise.all(["", "read.md", "unread.md"].map((file) => textOf("held", session, file)));
      }, soon)
      .toEqual([expect.stringContaining("text after"), "companion after", "unread after"]);
  },
);

proves(
  "skills.caches-change-nothing",
  "what tools write into their own folders of a skill is no part of it",
  patience,
  async () => {
    const session = await openSession();
    await expect.poll(() => digestNow("quiet"), soon).toMatch(/^sha256:/u);
    await expect.poll(async () => (await prepare(session)) === (await prepare(session)), soon).toBe(true);
    const snapshot = await prepare(session);
    const caches = ["__pycache__", ".venv", ".git", "node_modules", "deep/__pycache__"];
    await workspace.write(
      Object.fromEntries(caches.map((name) => [`skills/quiet/${name}/made.bin`, `made in ${name}`])),
    );
    // A real change behind them is seen: the caches were looked at by then, and marked nothing.
    await workspace.write({ "skills/marker/SKILL.md": skill("marker", "marker") });
    await expect.poll(() => digestNow("marker"), soon).toMatch(/^sha256:/u);
    await workspace.remove("skills/marker");
    await expect.poll(() => digestNow("marker"), soon).toBe("");
    expect(await prepare(session)).toBe(snapshot);
    const { files } = await open.sessions.listSkillFiles({ session, name: "quiet" });
    expect(files.map(({ path }) => path)).toEqual(["SKILL.md", "tool.sh"]);
    for (const name of caches) expect(await textOf("quiet", session, `${name}/made.bin`)).toBe("NOT_FOUND");
  },
);

proves(
  "skills.next-turn-sees-the-change",
  "what is added, edited, renamed or deleted is in the next preparation of an open session, and so are whole roots",
  { timeout: 240_000 },
  async () => {
    const session = await openSession();
    const names = async (): Promise<readonly string[]> =>
      (await open.sessions.listSkills({ session })).skills
        .filter(({ state }) => state === "eligible")
        .map(({ name }) => name);
    const description = async (name: string): Promise<string> =>
      (await open.sessions.listSkills({ session })).skills.find((one) => one.name === name)?.description ??
      "";
    await expect.poll(names, soon).toContain("going");

    await workspace.write({ "skills/new/SKILL.md": skill("new", "new") });
    await expect.poll(names, soon).toContain("new");
    await workspace.write({
      "skills/new/SKILL.md": "---\nname: new\ndescription: Does something else.\n---\n",
    });
    await expect.poll(() => description("new"), soon).toBe("Does something else.");
    await workspace.write({ "skills/new/SKILL.md": skill("renamed", "new") });
    await expect.poll(names, soon).toContain("renamed");
    expect(await names()).not.toContain("new");
    await workspace.remove("skills/going");
    await expect.poll(names, soon).not.toContain("going");
    // The second root of the workspace comes and goes.
    await workspace.write({ ".agents/skills/agents-own/SKILL.md": skill("agents-own", "x") });
    await expect.poll(names, soon).toContain("agents-own");
    await workspace.remove(".agents");
    await expect.poll(names, soon).not.toContain("agents-own");

    // A published root that configuration adds on the node, and takes away again.
    await using more = await makeTempWorkspace({ "skills/from-more/SKILL.md": skill("from-more", "x") });
    const added = await node.cli(["node", "workspace", "add", "more", more.path]);
    expect(added.exitCode).toBe(0);
    await expect.poll(names, soon).toContain("devbox-from-more");
    await workspace.write({ "skills/quiet/SKILL.md": skill("quiet", "edited meanwhile") });
    await more.write({ "skills/from-more/SKILL.md": skill("from-more-2", "x") });
    await expect.poll(names, soon).toContain("devbox-from-more-2");
    expect((await node.cli(["node", "workspace", "rm", "more"])).exitCode).toBe(0);
    await expect.poll(names, soon).not.toContain("devbox-from-more-2");
  },
);
