import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { startNodeBehindProxy, type NodeBehindProxy } from "../../support/node-behind-proxy.ts";
import type { Program } from "../../support/spawn-program.ts";

// Everything that ends a command ends all of it, also when the link or the agent is away at that moment.
const patience = { timeout: 120_000 };
const slowly = { timeout: 30_000, interval: 50 };

let kit: NodeBehindProxy;
let seconds = 600;

beforeAll(async () => {
  kit = await startNodeBehindProxy();
}, 120_000);

afterAll(async () => {
  await kit[Symbol.asyncDispose]();
}, 60_000);

interface Running {
  readonly call: Program;
  /** Whether anything of the command still runs. */
  readonly isAlive: () => boolean;
}

/** A command whose own session a child has left, once it runs. */
async function startLasting(args: readonly string[] = []): Promise<Running> {
  seconds += 1;
  const word = `sleep\0${seconds}.25`;
  const call = kit.exec(`setsid sleep ${seconds}.25 & sleep ${seconds}.25`, args);
  await expect.poll(() => findProcesses(word).length, slowly).toBe(2);
  return { call, isAlive: () => findProcesses(word).length > 0 };
}

test("a caller that leaves while the link is cut ends its job once the link is back", patience, async () => {
  const { proxy } = kit;
  const { call, isAlive } = await startLasting();
  proxy.refuse();
  proxy.cut();
  expect((await call.kill("SIGINT")).exitCode).toBe(130);
  expect(isAlive()).toBe(true);
  await proxy.accept();
  await expect.poll(isAlive, slowly).toBe(false);
});

test(
  "a caller that leaves while the agent is away ends its job once the agent is back",
  patience,
  async () => {
    const { node } = kit;
    const { call, isAlive } = await startLasting();
    await node.kill("SIGKILL");
    expect((await call.kill("SIGINT")).exitCode).toBe(130);
    expect(isAlive()).toBe(true);
    await node.restart();
    await expect.poll(isAlive, slowly).toBe(false);
  },
);

test(
  "a caller that came back to its job after a restart ends it as it would have before",
  patience,
  async () => {
    const { node } = kit;
    const { call, isAlive } = await startLasting();
    await node.kill("SIGKILL");
    await node.restart();
    expect(isAlive()).toBe(true);
    expect((await call.kill("SIGINT")).exitCode).toBe(130);
    await expect.poll(isAlive, slowly).toBe(false);
  },
);

test("the deadline of a call ends its job, also when the agent is killed meanwhile", patience, async () => {
  const { node } = kit;
  const { call, isAlive } = await startLasting(["--deadline", "6s", "--json"]);
  await node.kill("SIGKILL");
  await expect.poll(isAlive, slowly).toBe(false);
  await node.restart();
  expect((await call.ended).exitCode).toBe(1);
  expect(JSON.parse(call.stdout())).toMatchObject({
    error: { code: expect.stringMatching(/^(?:OUTCOME_UNKNOWN|DEADLINE_EXCEEDED)$/) },
  });
});

test(
  "a workspace that is exported no more takes its jobs with it, running agent or not",
  patience,
  async () => {
    const { node, workspace } = kit;
    const add = async (): Promise<unknown> =>
      await node.json(["node", "workspace", "add", "app", workspace.path, "--write", "**"]);
    const running = await startLasting(["--json"]);
    await node.json(["node", "workspace", "rm", "app"]);
    await expect.poll(running.isAlive, slowly).toBe(false);
    expect((await running.call.ended).exitCode).not.toBe(0);
    await add();
    await expect
      .poll(async () => (await kit.gateway.cli(["files", "ls", "devbox:/app"])).exitCode, slowly)
      .toBe(0);

    const left = await startLasting(["--json"]);
    await node.kill("SIGKILL");
    await node.json(["node", "workspace", "rm", "app"]);
    expect(left.isAlive()).toBe(true);
    await node.restart();
    await expect.poll(left.isAlive, slowly).toBe(false);
    await left.call.ended;
    await add();
    await expect
      .poll(async () => (await kit.gateway.cli(["files", "ls", "devbox:/app"])).exitCode, slowly)
      .toBe(0);
  },
);

test(
  "the machine lists what runs on it and ends what it will, with its agent and without",
  patience,
  async () => {
    const { node } = kit;
    const first = await startLasting(["--json"]);
    const second = await startLasting(["--json"]);
    const listed = async (): Promise<readonly unknown[]> =>
      listOf(await node.json(["node", "jobs", "ls"]), "jobs");
    const [one, two] = await listed();
    expect(one).toMatchObject({ agent: "operator", session: null, workspace: "app", cwd: "/app" });
    expect(String(memberOf(one, "command"))).toContain("setsid sleep");
    expect(listOf(await node.json(["node", "status"]), "jobs")).toEqual([one, two]);
    await node.json(["node", "jobs", "stop", String(memberOf(one, "id"))]);
    expect(first.isAlive()).toBe(false);
    expect((await first.call.ended).exitCode).toBe(1);
    expect(JSON.parse(first.call.stdout())).toMatchObject({
      error: { code: "CANCELLED", details: { reason: "ended_on_node" } },
    });

    await node.kill("SIGKILL");
    expect(await listed()).toEqual([two]);
    await node.json(["node", "jobs", "stop", String(memberOf(two, "id")).slice(0, 12)]);
    expect(second.isAlive()).toBe(false);
    expect(await listed()).toEqual([]);
    expect(faultOf(await node.cli(["node", "jobs", "stop", "none", "--json"]))).toMatchObject({
      exitCode: 4,
      hint: "fairlead node jobs ls",
    });
    await node.restart();
    expect((await second.call.ended).exitCode).toBe(1);
    expect(JSON.parse(second.call.stdout())).toMatchObject({
      error: { code: "CANCELLED", details: { reason: "ended_on_node" } },
    });
  },
);

test("Ctrl-C on the agent ends its jobs, and their callers hear of it", patience, async () => {
  const { node } = kit;
  const { call, isAlive } = await startLasting(["--json"]);
  expect((await node.kill("SIGINT")).exitCode).toBe(130);
  expect(isAlive()).toBe(false);
  expect((await call.ended).exitCode).toBe(1);
  expect(JSON.parse(call.stdout())).toMatchObject({
    error: { code: "CANCELLED", details: { reason: "stopped" } },
  });
  await node.restart();
});

test(
  "a node that is revoked ends its jobs, also those that ran on without their agent",
  patience,
  async () => {
    const { gateway, node } = kit;
    const { call, isAlive } = await startLasting(["--json"]);
    await node.kill("SIGKILL");
    await gateway.json(["nodes", "revoke", "devbox"]);
    expect((await call.ended).exitCode).not.toBe(0);
    expect(isAlive()).toBe(true);
    await node.restart({ waitForReady: false });
    await expect.poll(isAlive, slowly).toBe(false);
    expect((await node.ended).exitCode).toBe(3);
  },
);
