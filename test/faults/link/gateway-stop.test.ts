import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { faultOf } from "../../support/cli-fault.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

test(
  "a gateway that is told to stop answers what ends in time, dispatches nothing new and exits 0",
  { timeout: 90_000 },
  async () => {
    await using app = await makeTempWorkspace({ "a.txt": "text" });
    await using gateway = await startGateway();
    await using node = await startNode({
      gateway,
      workspaces: { app: `${app.path}:rw` },
      exec: "full",
      profile: "full",
    });
    const exec = (command: string) =>
      gateway.cli(["nodes", "call", "devbox", "exec", "--args", JSON.stringify({ command }), "--json"]);
    const [mark, soon] = [randomUUID(), { timeout: 20_000, interval: 50 }];
    const running = exec(`sleep 2.5; echo answered; : ${mark}`);
    // The command line that asks, and what it asked for.
    await expect.poll(() => findProcesses(mark).length, soon).toBeGreaterThan(1);
    const begunAt = Date.now();
    const stopped = gateway.kill("SIGTERM");
    const refused = await exec("echo new");
    expect(refused.exitCode).not.toBe(0);
    expect(["WORKSPACE_ACCESS_UNAVAILABLE", "GATEWAY_UNREACHABLE", "NOT_FOUND"]).toContain(
      faultOf(refused).code,
    );
    const answered = await running;
    expect(answered).toMatchObject({ exitCode: 0 });
    expect(answered.stdout).toContain("answered");
    expect(await stopped).toEqual({ exitCode: 0, signal: null });
    expect(Date.now() - begunAt).toBeLessThan(10_000);
    // The node was told why, and dials on.
    await expect.poll(() => node.logs(), soon).toContain("the gateway drains: gateway_stops");
    await gateway.restart();
    await expect.poll(async () => (await exec("echo again")).stdout, soon).toContain("again");
  },
);
