import { randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { type GatewayBehindProxy, startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { runCli } from "../../support/run-cli.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { inviteCode, startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

// A gateway that is killed has lost nothing that it acknowledged, and its nodes come back by themselves.
const patience = { timeout: 180_000 };
const slowly = { timeout: 60_000, interval: 100 };
const mebi = 1024 * 1024;

let stack: AsyncDisposableStack;
let kit: GatewayBehindProxy;
let workspace: TempWorkspace;
let local: TempFolder;
let node: TestNode;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  kit = stack.use(await startGatewayBehindProxy());
  workspace = stack.use(
    await makeTempWorkspace({ "old.bin": "old content", "MEMORY.md": "# Kept\nA word.\n" }),
  );
  local = stack.use(await makeTempFolder());
  await writeFile(local.join("big.bin"), randomBytes(48 * mebi));
  node = stack.use(
    await startNode({
      gateway: kit.gateway,
      profile: "work",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
      inviteArgs: ["--label", "env=test"],
    }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

async function untilOnline(): Promise<void> {
  const state = async (): Promise<unknown> =>
    memberOf((await kit.gateway.cli(["nodes", "show", "devbox", "--json"])).json, "state");
  await expect.poll(state, slowly).toBe("online");
}

async function restartGateway(): Promise<void> {
  const { pid } = node;
  await kit.gateway.restart();
  await untilOnline();
  expect(node.pid).toBe(pid);
}

/** What must be the same after a restart; times and counters of the running link are not. */
async function lasting(): Promise<unknown> {
  const { gateway } = kit;
  const nodes = ["online", "offline", "revoked"].map(async (state) =>
    listOf(await gateway.json(["nodes", "ls", "--state", state]), "nodes").map((one) =>
      ["id", "alias", "profile", "labels", "pairedAt"].map((name) => memberOf(one, name)),
    ),
  );
  return {
    nodes: await Promise.all(nodes),
    sessions: listOf(await gateway.json(["sessions", "ls"]), "sessions").map((one) =>
      ["id", "agent", "workspace", "state"].map((name) => memberOf(one, name)),
    ),
    tokens: await gateway.json(["tokens", "ls"]),
    approvals: await gateway.json(["approvals", "ls"]),
  };
}

const exec = [
  "tools",
  "call",
  "devbox__exec",
  "--args",
  '{"command":"echo ran > ran.txt"}',
  "--json",
  "--no-wait",
];

test(
  "pairings, codes, sessions, tokens and waiting approvals outlive a gateway that is killed",
  patience,
  async () => {
    const { gateway } = kit;
    await using other = await startNode({ gateway, alias: "gone" });
    await gateway.json(["nodes", "revoke", "gone"]);
    expect((await other.ended).exitCode).toBe(3);
    await using away = await startNode({ gateway, alias: "away" });
    await away.kill("SIGTERM");
    const open = await inviteCode(gateway, ["--name", "later"]);
    const session = await gateway.json(["sessions", "open", "--workspace", "devbox:/app"]);
    await gateway.json(["tokens", "create", "--agent", "operator"]);
    const approvalId = String(faultOf(await gateway.cli(exec)).details["approvalId"]);
    const before = await lasting();

    await gateway.kill("SIGKILL");
    expect(faultOf(await gateway.cli(["nodes", "ls", "--json"]))).toMatchObject({
      exitCode: 5,
      code: "GATEWAY_UNREACHABLE",
      hint: "fairlead gateway run",
    });
    await restartGateway();
    expect(await lasting()).toEqual(before);
    expect(await gateway.json(["sessions", "show", String(memberOf(session, "id"))])).toMatchObject({
      workspace: "devbox:/app",
    });

    const read = ["tools", "call", "read", "--session", String(memberOf(session, "id"))];
    expect(await gateway.json([...read, "--args", '{"path":"old.bin"}'])).toMatchObject({
      content: [{ type: "text", text: expect.stringContaining("old content") }],
    });

    // What was given before holds after: the approval releases its call, the code joins its machine, once.
    expect((await gateway.cli(["approvals", "allow", approvalId])).exitCode).toBe(0);
    expect((await gateway.cli(exec)).exitCode).toBe(0);
    expect(await workspace.text("ran.txt")).toBe("ran\n");
    await using home = await makeTempFolder();
    await using joined = spawnProgram(["node", "join", open, "--json"], { home: home.path });
    await joined.waitForLine((line) => line.includes('"event":"ready"'));
    await joined.kill("SIGTERM");
    await using late = await makeTempFolder();
    expect(faultOf(await runCli(["node", "join", open, "--json"], { home: late.path }))).toMatchObject({
      exitCode: 1,
      code: "JOIN_CODE_INVALID",
      details: { reason: "used" },
    });
  },
);

test(
  "a gateway killed in the middle of a put leaves the old file, and the put goes on once it is back",
  patience,
  async () => {
    const { gateway, proxy } = kit;
    proxy.limit(12 * mebi);
    const before = proxy.counts.down.bytes;
    await using put = spawnProgram(
      ["files", "put", local.join("big.bin"), "devbox:/app/old.bin", "--if-match", "any", "--json"],
      { home: gateway.home },
    );
    await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(16 * mebi);
    await gateway.kill("SIGKILL");
    proxy.mend();
    expect(await workspace.text("old.bin")).toBe("old content");

    await restartGateway();
    expect(await put.ended).toMatchObject({ exitCode: 0 });
    const stored = await readFile(workspace.join("old.bin"));
    expect(stored.equals(await readFile(local.join("big.bin")))).toBe(true);
    expect((await workspace.entries()).filter((name) => name.includes(".fairlead-"))).toEqual([]);
    expect(await gateway.json(["memory", "search", "word"])).toMatchObject({
      hits: [{ workspace: "devbox:/app", path: "MEMORY.md" }],
    });
  },
);

test(
  "a gateway that is killed again and again while its node dials has it back each time",
  patience,
  async () => {
    for (let round = 0; round < 3; round += 1) {
      await kit.gateway.kill("SIGKILL");
      await kit.gateway.restart();
    }
    await untilOnline();
    expect((await kit.gateway.cli(["files", "cat", "devbox:/app/MEMORY.md"])).stdout).toContain("A word.");
    expect(listOf(await kit.gateway.json(["nodes", "ls", "--state", "online"]), "nodes")).toHaveLength(1);
  },
);
