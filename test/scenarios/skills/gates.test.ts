import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { create, toJsonString } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect } from "vitest";
import { readMachineFacts } from "../../../node-agent/skills/gate-facts.ts";
import { judgeList, partsOf } from "../../../node-agent/skills/judged-list.ts";
import { SkillsListPublishedResponseSchema } from "../../../shared/gen/fairlead/v1/skills_pb.ts";
import { openTestSessions, listSkillNames, type TestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import { readLiveFiles } from "../../support/read-live-files.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 120_000 };
const secret = "sk-4f1d0c7be2a98d35";

const skill = (name: string, requires: string): string =>
  `---\nname: ${name}\ndescription: Does ${name}.\nrequires: ${requires}\n---\n`;

let folders: TempFolder;
let workspace: TempWorkspace;
let gateway: TestGateway;
let node: TestNode;
let open: TestSessions;
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  folders = stack.use(await makeTempFolder());
  for (const name of ["gateway/there", "node/here"]) await makeProgram(name);
  workspace = stack.use(
    await makeTempWorkspace({
      "skills/local/SKILL.md": skill("local", "{bins: [here]}"),
      "skills/remote/SKILL.md": skill("remote", "{bins: [there]}"),
      "skills/later/SKILL.md": skill("later", "{anyBins: [soon, someday]}"),
      "skills/keyed/SKILL.md": skill("keyed", "{env: [SERVICE_KEY, OTHER_KEY]}"),
    }),
  );
  const path = (name: string): string => `${folders.join(name)}:${process.env["PATH"]}`;
  gateway = stack.use(await startGateway({ env: { PATH: path("gateway") } }));
  node = stack.use(
    await startNode({
      gateway,
      workspaces: { app: workspace.path },
      env: { PATH: path("node"), SERVICE_KEY: secret },
    }),
  );
  open = stack.use(await openTestSessions(gateway));
}, 120_000);

afterAll(() => stack.disposeAsync());

async function makeProgram(name: string): Promise<void> {
  const file = folders.join(name);
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, "#!/bin/sh\nexit 0\n");
  await chmod(file, 0o755);
}

async function reasonsOf(name: string): Promise<readonly string[]> {
  const { skills } = await open.sessions.listSkills({});
  const found = skills.find((one) => one.name === name);
  return found?.reasons.map(({ code, message }) => `${code}: ${message}`) ?? [];
}

const names = (session = ""): Promise<readonly string[]> => listSkillNames(open.sessions, session);

proves(
  "skills.gates-judged-on-owner",
  "a binary on the node makes its skill eligible, and one on the gateway alone does not",
  patience,
  async () => {
    await expect
      .poll(() => names())
      .toEqual([
        "devbox-keyed (ineligible)",
        "devbox-later (ineligible)",
        "devbox-local",
        "devbox-remote (ineligible)",
      ]);
    const [reason] = await reasonsOf("devbox-remote");
    expect(reason).toMatch(/^gate_bins: .*\bthere\b.*\bdevbox\b.*requires\.bins/);
    const own = await open.sessions.open({ agent: "main", workspace: `${node.alias}:/app` });
    expect(await names(own.session?.id)).toEqual([
      "keyed (ineligible)",
      "later (ineligible)",
      "local",
      "remote (ineligible)",
    ]);
    const read = await gateway.cli(["skills", "read", "devbox-remote"]);
    expect([read.exitCode, read.stderr]).toEqual([4, expect.stringContaining("needs there")]);
  },
);

proves(
  "skills.environment-values-stay",
  "what is said of a variable is its name and whether it is set, and its value is nowhere",
  patience,
  async () => {
    expect(await reasonsOf("devbox-keyed")).toEqual([
      expect.stringMatching(/^gate_env: .*\bOTHER_KEY\b.*requires\.env/),
    ]);
    const shown = await gateway.cli(["skills", "show", "devbox-keyed", "--json"]);
    const listed = await gateway.cli(["skills", "ls", "--json"]);
    expect(shown.stdout).toContain("OTHER_KEY");
    const audit = await gateway.cli(["audit", "query", "--json"]);
    const files = await Promise.all([gateway.home, node.home].map(bytesBelow));
    const everything = [shown.stdout, listed.stdout, audit.stdout, gateway.logs(), node.logs(), ...files];
    // The front matter names the variable, so that what the gateway keeps of the skill was among what was searched.
    expect(listed.stdout).toContain("SERVICE_KEY");
    for (const text of everything) expect(text).not.toContain(secret);

    // What goes over the link, as the agent makes it.
    const facts = { environment: { SERVICE_KEY: secret }, path: () => "", configuration: () => ({}) };
    const frontMatterJson = '{"requires":{"env":["SERVICE_KEY","OTHER_KEY"]}}';
    const found = create(SkillsListPublishedResponseSchema, {
      skills: [{ workspace: "app", folder: "skills/keyed", name: "keyed", state: "ok", frontMatterJson }],
    });
    const list = await judgeList(Readable.from([found]), readMachineFacts(facts));
    const messages = Array.from(partsOf(list, 1n), (part) =>
      toJsonString(SkillsListPublishedResponseSchema, create(SkillsListPublishedResponseSchema, part)),
    ).join("\n");
    expect(messages).toContain('"failedGates":[{"gate":"env","missing":["OTHER_KEY"]}]');
    expect(messages).not.toContain(secret);
  },
);

/** All files below a folder as one text; sockets are left out. */
async function bytesBelow(folder: string): Promise<string> {
  return (await readLiveFiles(folder)).map((file) => file.bytes.toString("latin1")).join("\n");
}

proves(
  "skills.gates-follow-facts",
  "a binary that comes and goes is seen without a restart, and a node that is away is asked nothing",
  patience,
  async () => {
    const processes = [gateway.pid, node.pid];
    expect(await reasonsOf("devbox-later")).toEqual([
      expect.stringMatching(/^gate_any_bins: .*soon, someday/),
    ]);
    await makeProgram("node/someday");
    await expect.poll(() => names(), { timeout: 60_000 }).toContain("devbox-later");
    expect([gateway.pid, node.pid]).toEqual(processes);

    await node.kill("SIGTERM");
    await expect.poll(() => names()).toContain("devbox-later (offline)");
    await rm(folders.join("node/someday"));
    const logged = gateway.logs().length;
    expect(await names()).toEqual([
      "devbox-keyed (offline)",
      "devbox-later (offline)",
      "devbox-local (offline)",
      "devbox-remote (offline)",
    ]);
    // No call was begun for it: the gateway writes a line for each.
    expect(gateway.logs().slice(logged)).not.toContain("skills were read");
    await node.restart();
    await expect.poll(() => names()).toContain("devbox-later (ineligible)");
  },
);
