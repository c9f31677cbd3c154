import { mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { startNode, type TestNode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

// Each of these starts several programs: the machine may be busy with other tests.
const patience = { timeout: 120_000 };
const slowPoll = { timeout: 40_000, interval: 250 };

async function statusOf(node: TestNode): Promise<Record<string, unknown>> {
  const { json, exitCode } = await node.cli(["node", "status", "--json"]);
  return { ...(json as Record<string, unknown>), exitCode };
}

async function stateIn(gateway: TestGateway, alias: string): Promise<unknown> {
  const { json } = await gateway.cli(["nodes", "show", alias, "--json"]);
  return (json as { readonly state?: unknown }).state;
}

const skill = "---\nname: review\ndescription: Reviews a change before it is merged\n---\nRead the change.\n";

proves(
  "link.ready-means-published",
  "when the agent says ready, everything of it is listed",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({ "skills/review/SKILL.md": skill });
    await using node = await startNode({
      gateway,
      workspaces: { app: `${workspace.path}:rw` },
      exec: "full",
    });
    for (let round = 0; round < 2; round += 1) {
      expect(await gateway.json(["workspaces", "ls"])).toMatchObject({
        workspaces: [{ workspace: "devbox:/app", state: "available", writable: true }],
      });
      expect(await gateway.json(["tools", "ls", "--provider", "devbox"])).toMatchObject({
        tools: expect.arrayContaining([expect.objectContaining({ name: "devbox__read" })]),
      });
      expect(await gateway.json(["skills", "ls"])).toMatchObject({
        skills: [{ name: "devbox-review", owner: "devbox", state: "eligible" }],
      });
      expect(await gateway.json(["nodes", "ls"])).toMatchObject({
        nodes: [{ alias: "devbox", state: "online", workspaces: ["app"], skills: 1 }],
      });
      // The second time with `node run`.
      if (round === 0) await node.restart();
    }
  },
);

proves(
  ["link.attempts-visible", "link.stop-during-backoff"],
  "a node whose gateway is gone shows its attempts, and ends at once when it is told to",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    expect(await statusOf(node)).toMatchObject({ state: "online", exitCode: 0, alias: "devbox" });
    await gateway.kill("SIGKILL");
    await expect
      .poll(() => statusOf(node), slowPoll)
      .toMatchObject({
        exitCode: 5,
        state: expect.stringMatching(/^(reconnecting|offline|connecting)$/),
        since: expect.stringMatching(/Z$/),
        reason: expect.stringMatching(/^[a-z_]+$/),
        code: "GATEWAY_UNREACHABLE",
        attempts: expect.any(Number),
        lastAttemptAt: expect.stringMatching(/Z$/),
        nextAttemptAt: expect.stringMatching(/Z$/),
        nextStep: expect.stringMatching(/\S/),
      });
    // Some attempts later the waits are long enough for the end to fall into one.
    await expect.poll(async () => (await statusOf(node))["attempts"], slowPoll).toBeGreaterThanOrEqual(3);
    const startedAt = systemClock.now();
    expect((await node.kill("SIGTERM")).exitCode).toBe(0);
    expect(systemClock.now() - startedAt).toBeLessThan(2_000);
    const left = await readdir(join(node.home, "node"));
    expect(left.filter((name) => name.endsWith(".sock"))).toEqual([]);
    expect(await statusOf(node)).toMatchObject({
      state: "offline",
      reason: "agent_not_running",
      exitCode: 5,
    });
  },
);

/** The inodes of the sockets that a process and all that it started hold. */
async function socketsOf(pid: number): Promise<ReadonlySet<string>> {
  const sockets = new Set<string>();
  for (const descriptor of await readdir(`/proc/${pid}/fd`)) {
    const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => "");
    const [, inode] = /^socket:\[(\d+)\]$/.exec(target) ?? [];
    if (inode !== undefined) sockets.add(inode);
  }
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ");
  for (const child of children.filter((text) => text !== "")) {
    for (const inode of await socketsOf(Number(child))) sockets.add(inode);
  }
  return sockets;
}

/** The inodes of this machine's TCP sockets that listen, and of every UDP socket. */
async function listeningInodes(): Promise<ReadonlySet<string>> {
  const listening = new Set<string>();
  for (const table of ["tcp", "tcp6", "udp", "udp6"]) {
    const lines = (await readFile(`/proc/net/${table}`, "utf8")).split("\n").slice(1);
    for (const fields of lines.map((line) => line.trim().split(/\s+/))) {
      const [, , , state, , , , , , inode = "0"] = fields;
      if (table.startsWith("udp") || state === "0A") listening.add(inode);
    }
  }
  listening.delete("0");
  return listening;
}

async function countListening(pid: number): Promise<number> {
  const listening = await listeningInodes();
  return [...(await socketsOf(pid))].filter((inode) => listening.has(inode)).length;
}

proves(
  "link.node-listens-nowhere",
  "a linked node and its workers listen on nothing, and the gateway needs one port for all",
  { ...patience, skip: process.platform !== "linux" },
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "# Notes\n",
      "skills/review/SKILL.md": skill,
    });
    await using one = await startNode({ gateway, alias: "one", workspaces: { app: workspace.path } });
    await using two = await startNode({ gateway, alias: "two", workspaces: { app: workspace.path } });
    expect((await socketsOf(one.pid)).size).toBeGreaterThan(0);
    expect([await countListening(one.pid), await countListening(two.pid)]).toEqual([0, 0]);
    // One port for all nodes; the other is that of MCP.
    expect(await countListening(gateway.pid)).toBe(2);
  },
);

test("a running agent follows `node workspace add` and `rm` without a restart", patience, async () => {
  await using gateway = await startGateway();
  await using workspace = await makeTempWorkspace({ "a.txt": "x" });
  await using node = await startNode({ gateway });
  const names = async (): Promise<unknown> => {
    const { workspaces } = (await gateway.json(["workspaces", "ls"])) as {
      readonly workspaces: readonly { readonly workspace: string; readonly state: string }[];
    };
    return workspaces.filter(({ state }) => state === "available").map(({ workspace: name }) => name);
  };
  expect(await names()).toEqual([]);
  expect((await node.cli(["node", "workspace", "add", "docs", workspace.path])).exitCode).toBe(0);
  await expect.poll(names, slowPoll).toEqual(["devbox:/docs"]);
  expect((await node.cli(["node", "workspace", "rm", "docs"])).exitCode).toBe(0);
  await expect.poll(names, slowPoll).toEqual([]);
});

test("an agent that meets a broken configuration keeps the last good one and says so", patience, async () => {
  await using gateway = await startGateway();
  await using workspace = await makeTempWorkspace({ "a.txt": "x" });
  await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
  const file = join(node.home, "node/config.yaml");
  const good = await readFile(file, "utf8");
  await writeFile(file, `${good}exce:\n  mode: full\n`);
  await expect
    .poll(async () => (await statusOf(node))["configProblem"], slowPoll)
    .toEqual(expect.stringContaining("exce"));
  expect((await gateway.cli(["files", "cat", "devbox:/app/a.txt"])).stdout).toBe("x");
  await writeFile(file, good);
  await expect.poll(async () => (await statusOf(node))["configProblem"], slowPoll).toBeNull();
});

test("a gateway that comes back has its node again, and a stopped one is told apart", patience, async () => {
  await using gateway = await startGateway();
  await using node = await startNode({ gateway });
  await gateway.kill("SIGKILL");
  await gateway.restart();
  await expect.poll(() => stateIn(gateway, "devbox"), slowPoll).toBe("online");
  await node.kill("SIGTERM");
  await expect.poll(() => stateIn(gateway, "devbox"), slowPoll).toBe("offline");
});

test("a second gateway or agent in one home exits 6 and names the process", patience, async () => {
  await using gateway = await startGateway();
  const second = await gateway.cli(["gateway", "run", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
  expect(second.exitCode).toBe(6);
  expect(second.stderr).toContain(`process ${gateway.pid}`);
  await using node = await startNode({ gateway });
  const twin = await node.cli(["node", "run"]);
  expect(twin.exitCode).toBe(6);
  expect(twin.stderr).toContain(`process ${node.pid}`);
});

test("a gateway whose settings are wrong starts nothing and says what to mend", patience, async () => {
  await using home = await makeTempFolder();
  const open = await runCli(["gateway", "run", "--http", "0.0.0.0:7480"], { home: home.path });
  expect(open.exitCode).toBe(2);
  expect(open.stderr).toMatch(/^error: .*loopback.*\nhint: /);
  await mkdir(home.join("gateway"));
  await writeFile(home.join("gateway/config.yaml"), "listen: 127.0.0.1:0\nhtp: 127.0.0.1:0\n");
  const typo = await runCli(["gateway", "run"], { home: home.path });
  expect(typo.exitCode).toBe(2);
  expect(typo.stderr).toContain("config.yaml:2: htp is no setting");
  expect(typo.stderr).toContain("did you mean http?");
  expect(await home.entries()).toEqual(["gateway", "gateway/config.yaml"]);
});
