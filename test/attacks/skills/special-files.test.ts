import { execFileSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { openTestSessions, type TestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

const skill = (name: string): string => `---\nname: ${name}\ndescription: Does ${name}.\n---\n`;

let gateway: TestGateway;
let workspace: TempWorkspace;
let node: TestNode;
let open: TestSessions;
const sockets = new AsyncDisposableStack();

const makers: Readonly<Record<string, (path: string) => Promise<void>>> = {
  fifo: async (path) => void execFileSync("mkfifo", [path]),
  socket: async (path) => {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(path, resolve);
    });
    sockets.defer(() => server[Symbol.asyncDispose]());
  },
  device: async (path) => void execFileSync("mknod", [path, "c", "1", "5"]),
};
const kinds = Object.keys(makers);

beforeAll(async () => {
  workspace = await makeTempWorkspace({ "skills/good/SKILL.md": skill("good") });
  for (const [kind, make] of Object.entries(makers)) {
    const instructions = workspace.join(`skills/as-${kind}/SKILL.md`);
    await mkdir(dirname(instructions), { recursive: true });
    await make(instructions);
    await workspace.write({ [`skills/with-${kind}/SKILL.md`]: skill(`with-${kind}`) });
    await make(workspace.join(`skills/with-${kind}/odd`));
  }
  gateway = await startGateway();
  node = await startNode({ gateway, workspaces: { app: workspace.path } });
  open = await openTestSessions(gateway);
}, 120_000);

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await node[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await sockets.disposeAsync();
  await workspace[Symbol.asyncDispose]();
}, 60_000);

proves(
  "skills.special-file-never-blocks",
  "a pipe, a socket or a device in the place of a file is told as what it is, and nothing waits for it",
  { timeout: 120_000 },
  async () => {
    const list = async (): ReturnType<TestSessions["sessions"]["listSkills"]> =>
      await open.sessions.listSkills({ session: "" });
    await expect
      .poll(async () => (await list()).skills.length, { timeout: 30_000 })
      .toBe(1 + 2 * kinds.length);
    const { skills } = await list();
    for (const kind of kinds) {
      const broken = skills.find(({ folder }) => folder === `skills/as-${kind}`);
      expect([kind, broken?.state, broken?.reasons[0]?.code]).toEqual([
        kind,
        "broken",
        "UNSUPPORTED_FILE_TYPE",
      ]);
      expect(skills.find(({ folder }) => folder === `skills/with-${kind}`)?.state).toBe("eligible");
    }
    // Reads of all of them at once, with a call between that the worker answers meanwhile. A read that waited for a
    // writer would never end: each is given up after far more than a second only so that the test ends.
    const reads = kinds.map(async (kind) => {
      const args = ["skills", "read", `devbox-with-${kind}`, "odd", "--json"];
      const { json, exitCode } = await gateway.cli(args, { timeoutMs: 60_000 });
      return [kind, exitCode, (json as { error: { code: string } }).error.code];
    });
    const { files } = await open.sessions.listSkillFiles({ session: "", name: "devbox-good" });
    expect(files.map(({ path }) => path)).toEqual(["SKILL.md"]);
    expect(await Promise.all(reads)).toEqual(kinds.map((kind) => [kind, 1, "UNSUPPORTED_FILE_TYPE"]));
    const check = await gateway.cli(["skills", "check", "--json"]);
    expect(check.exitCode).toBe(7);
    const checked = JSON.stringify(check.json);
    for (const kind of kinds) expect(checked).toContain(`devbox:/app/skills/as-${kind}`);
    expect(checked.split("UNSUPPORTED_FILE_TYPE")).toHaveLength(kinds.length + 1);
  },
);
