import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { inviteCode, startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 120_000 };
const slowly = { timeout: 30_000, interval: 50 };
const mebi = 1024 * 1024;
const skill = "---\nname: review\ndescription: Reviews a change before it is merged\n---\nRead the change.\n";

proves(
  "pairing.revoke-before-return",
  "when the command returns, link, calls, workspaces, tools and skills of the node are over",
  patience,
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    const big = randomBytes(24 * mebi);
    await using workspace = await makeTempWorkspace({
      "big.bin": big,
      "skills/review/SKILL.md": skill,
      "MEMORY.md": "# Notes\n",
    });
    await using local = await makeTempFolder();
    await using node = await startNode({
      gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    });
    proxy.limit(2 * mebi);
    const before = proxy.counts.up.bytes;
    await using read = spawnProgram(
      ["files", "get", "devbox:/app/big.bin", local.join("big.bin"), "--json"],
      { home: gateway.home },
    );
    // A word that no other process has: what is left of it shows.
    const word = `61${process.pid}.25`;
    await using command = spawnProgram(
      ["tools", "call", "devbox__exec", "--json", "--args", `{"command":"touch began; sleep ${word}"}`],
      { home: gateway.home },
    );
    await expect.poll(() => proxy.counts.up.bytes - before, slowly).toBeGreaterThan(mebi);
    await expect.poll(() => workspace.has("began"), slowly).toBe(true);
    expect(findProcesses(`sleep\0${word}`).length).toBeGreaterThan(0);

    const revoked = await gateway.json(["nodes", "revoke", "devbox"]);
    const arrived = proxy.counts.up.bytes;
    expect(revoked).toMatchObject({ id: node.nodeId, state: "revoked", already: false });
    expect(proxy.counts.open).toBe(0);

    expect(await gateway.json(["nodes", "ls"])).toEqual({ nodes: [] });
    expect(await gateway.json(["tools", "ls", "--provider", "devbox"])).toMatchObject({ tools: [] });
    expect(await gateway.json(["skills", "ls"])).toMatchObject({ skills: [] });
    const stopped = {
      exitCode: 5,
      code: "WORKSPACE_ACCESS_UNAVAILABLE",
      retryable: false,
      details: { reason: "revoked" },
    };
    expect(faultOf(await gateway.cli(["files", "ls", "devbox:/app", "--json"]))).toMatchObject(stopped);
    for (const call of [read, command]) {
      const { exitCode } = await call.ended;
      expect({ exitCode, json: JSON.parse(call.stdout()) as unknown }).toMatchObject({
        exitCode: 3,
        json: { error: { code: "IDENTITY_REVOKED", retryable: false } },
      });
    }
    // What had arrived is kept for a day, as of any transfer that was cut off, and is no file of that name.
    const others = (await local.entries()).filter((name) => !name.startsWith(".fairlead-stage-kept-"));
    expect(others).toEqual([]);
    await expect.poll(() => findProcesses(`sleep\0${word}`), slowly).toEqual([]);

    // The machine hears it, stops for good and says what to do.
    expect((await node.ended).exitCode).toBe(3);
    expect(proxy.counts.up.bytes - arrived).toBeLessThan(64 * 1024);
    const status = await node.cli(["node", "status", "--json"]);
    expect({ exitCode: status.exitCode, json: status.json }).toMatchObject({
      exitCode: 3,
      json: { state: "IDENTITY_REVOKED", code: "IDENTITY_REVOKED", nextStep: "fairlead node join CODE" },
    });
    const dialled = proxy.counts.connections;
    const again = await node.cli(["node", "run"]);
    expect(again.exitCode).toBe(3);
    expect(again.stderr).toMatch(/error: .* \(IDENTITY_REVOKED\)\nhint: .*fairlead node join CODE/);
    expect(proxy.counts.connections - dialled).toBe(1);

    // A gateway that starts anew has not forgotten it.
    await gateway.restart();
    expect(faultOf(await gateway.cli(["files", "ls", "devbox:/app", "--json"]))).toMatchObject(stopped);
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({
      id: node.nodeId,
      state: "revoked",
    });
  },
);

test("a revoked machine comes back with a new code, as another node with a new key", patience, async () => {
  await using kit = await startGatewayBehindProxy();
  const { gateway } = kit;
  await using workspace = await makeTempWorkspace({ "a.txt": "a" });
  await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
  const key = await readFile(join(node.home, "node/identity/key.pem"), "utf8");
  await gateway.cli(["nodes", "revoke", "devbox"]);
  expect((await node.ended).exitCode).toBe(3);
  // Without a code there is no way back.
  expect((await node.cli(["node", "run"])).exitCode).toBe(3);
  const code = await inviteCode(gateway, ["--name", "devbox"]);
  await using joined = spawnProgram(["node", "join", code, "--json"], { home: node.home });
  const ready = await joined.waitForLine((line) => line.includes('"event":"ready"'));
  expect(joined.stderr()).toContain("joins with a new key");
  const id = memberOf(JSON.parse(ready), "nodeId");
  expect(id).not.toBe(node.nodeId);
  expect(await readFile(join(node.home, "node/identity/key.pem"), "utf8")).not.toBe(key);
  expect((await gateway.cli(["files", "cat", "devbox:/app/a.txt"])).stdout).toBe("a");
  const workspaces = listOf(await gateway.json(["workspaces", "ls"]), "workspaces");
  expect(workspaces).toMatchObject([{ workspace: "devbox:/app", state: "available" }]);
  const all = listOf(await gateway.json(["nodes", "ls", "--state", "revoked"]), "nodes");
  expect(all).toMatchObject([{ id: node.nodeId, state: "revoked" }]);
  const startedAt = systemClock.now();
  expect((await joined.kill("SIGTERM")).exitCode).toBe(0);
  expect(systemClock.now() - startedAt).toBeLessThan(10_000);
});
