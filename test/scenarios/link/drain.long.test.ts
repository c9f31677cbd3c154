import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 120_000 };
const soon = { timeout: 30_000, interval: 100 };
const stack = new AsyncDisposableStack();
let gateway: TestGateway;
let node: TestNode;

beforeAll(async () => {
  const app = stack.use(await makeTempWorkspace({ "a.txt": "text" }));
  gateway = stack.use(await startGateway());
  node = stack.use(
    await startNode({ gateway, workspaces: { app: `${app.path}:rw` }, exec: "full", profile: "full" }),
  );
}, 60_000);

afterAll(async () => {
  await stack[Symbol.asyncDispose]();
}, 60_000);

const exec = (command: string): Promise<CliResult> =>
  gateway.cli(["nodes", "call", "devbox", "exec", "--args", JSON.stringify({ command }), "--json"], {
    timeoutMs: 90_000,
  });

async function shown(): Promise<Map<string, unknown>> {
  const nodes = listOf(await gateway.json(["nodes", "ls"]), "nodes");
  return new Map(Object.entries(Object(nodes[0])));
}

async function stateOf(): Promise<unknown> {
  return (await shown()).get("state");
}

const refused = { code: "WORKSPACE_ACCESS_UNAVAILABLE", details: { reason: "draining" } };

proves(
  "link.drained-node",
  "a drained node takes no new call, finishes what runs, and nothing runs on it past the deadline",
  patience,
  async () => {
    const [short, long] = [randomUUID(), randomUUID()];
    // Each is there twice: the command line that asks, and what it asked for.
    const lasting = exec(`sleep 600; : ${long}`);
    await expect.poll(() => findProcesses(long).length, soon).toBeGreaterThan(1);
    const finishing = exec(`sleep 5; echo finished; : ${short}`);
    await expect.poll(() => findProcesses(short).length, soon).toBeGreaterThan(1);
    const drained = await gateway.json(["nodes", "drain", "devbox", "--within", "15s", "--note", "new disk"]);
    expect(drained).toMatchObject({
      state: "draining",
      reason: "drained",
      nextStep: "fairlead nodes undrain devbox",
      drain: { until: null, note: "new disk" },
    });
    expect(faultOf(await exec("echo new"))).toMatchObject(refused);
    expect(faultOf(await gateway.cli(["files", "cat", "devbox:/app/a.txt", "--json"]))).toMatchObject(
      refused,
    );
    const finished = await finishing;
    expect(finished.exitCode).toBe(0);
    expect(finished.stdout).toContain("finished");
    expect(findProcesses(long)).not.toEqual([]);
    expect(faultOf(await lasting)).toMatchObject({ code: "CANCELLED", details: { reason: "draining" } });
    const { deadline } = Object(memberOf(drained, "drain"));
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(String(deadline)));
    await expect.poll(() => findProcesses(long), soon).toEqual([]);
    // The node knows of it too.
    const status = await node.cli(["node", "status", "--json"]);
    expect(status.json).toMatchObject({ state: "draining", reason: "drained" });
    expect(String(memberOf(status.json, "nextStep"))).toContain("new disk");
  },
);

test(
  "a drain outlives restarts of both programs, and ends with undrain or at its time",
  patience,
  async () => {
    await gateway.json(["nodes", "drain", "devbox", "--note", "over restarts"]);
    await gateway.restart();
    await expect.poll(stateOf, soon).toBe("draining");
    await node.restart();
    await expect.poll(stateOf, soon).toBe("draining");
    expect(faultOf(await exec("echo new"))).toMatchObject(refused);
    // What it publishes stays listed: a call names the drain, not a tool that is gone.
    await expect.poll(async () => (await shown()).get("tools"), soon).toBeGreaterThan(0);
    const shownAgain = await gateway.cli(["nodes", "show", "devbox"]);
    expect(shownAgain.stdout).toContain("over restarts");
    expect(await gateway.json(["nodes", "undrain", "devbox"])).toMatchObject({
      state: "online",
      already: false,
      drain: null,
    });
    expect((await exec("echo served")).stdout).toContain("served");
    await expect.poll(async () => (await node.cli(["node", "status"])).exitCode, soon).toBe(0);
    expect(await gateway.json(["nodes", "undrain", "devbox"])).toMatchObject({ already: true });

    const until = new Date(Date.now() + 6000).toISOString();
    await gateway.json(["nodes", "drain", "devbox", "--until", until]);
    expect(await stateOf()).toBe("draining");
    await expect.poll(stateOf, soon).toBe("online");
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(until));

    const past = await gateway.cli(["nodes", "drain", "devbox", "--until", "2020-01-01T00:00:00Z", "--json"]);
    expect(faultOf(past)).toMatchObject({
      exitCode: 2,
      code: "INVALID_ARGUMENT",
      details: { field: "until" },
    });
  },
);

test("a disconnected node dials again by itself", patience, async () => {
  const before = (await shown()).get("generation");
  expect(await gateway.json(["nodes", "disconnect", "devbox"])).toMatchObject({ wasLinked: true });
  await expect.poll(async () => (await shown()).get("generation"), soon).toBeGreaterThan(Number(before));
  await expect.poll(stateOf, soon).toBe("online");
  expect((await exec("echo back")).stdout).toContain("back");
});
