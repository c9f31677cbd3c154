import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect } from "vitest";
import { memberOf } from "../../support/cli-fault.ts";
import {
  countedErrors,
  countedLines,
  countingLine,
  startNodeBehindProxy,
  type NodeBehindProxy,
} from "../../support/node-behind-proxy.ts";
import { proves } from "../../support/proves.ts";

// The gateway is killed in the middle of calls and started again: what became of them, its nodes know.
const patience = { timeout: 120_000 };
const slowly = { timeout: 60_000, interval: 50 };
const mebi = 1024 * 1024;
const lines = 200;

let kit: NodeBehindProxy;

beforeAll(async () => {
  kit = await startNodeBehindProxy();
}, 120_000);

afterAll(async () => {
  await kit[Symbol.asyncDispose]();
}, 60_000);

async function restartGateway(): Promise<void> {
  const { gateway } = kit;
  await gateway.restart();
  const state = async (): Promise<unknown> =>
    memberOf((await gateway.cli(["nodes", "show", "devbox", "--json"])).json, "state");
  await expect.poll(state, slowly).toBe("online");
}

/** The call's id in the hint of a command that lost its gateway. */
function hintedCall(stderr: string): string {
  return /fairlead nodes outcome devbox (\S+) --follow/.exec(stderr)?.[1] ?? "";
}

proves(
  "link.gateway-killed-job",
  "a job whose gateway was killed is met again by its id and offset, and its output is whole",
  patience,
  async () => {
    const { gateway, exec, start } = kit;
    await using call = exec(countingLine(lines, 7));
    await expect.poll(() => call.stdout(), slowly).toContain("line 20\n");
    await gateway.kill("SIGKILL");
    const { exitCode } = await call.ended;
    expect(exitCode).toBe(5);
    const callId = hintedCall(call.stderr());
    expect(callId).toMatch(/\S/);
    await restartGateway();
    const had = { stdout: call.stdout(), stderr: countedErrors(call.stderr()) };
    const offsets = [
      "--stdout-offset",
      String(had.stdout.length),
      "--stderr-offset",
      String(had.stderr.length),
    ];
    await using again = start(["nodes", "outcome", "devbox", callId, "--follow", ...offsets]);
    expect((await again.ended).exitCode).toBe(1);
    expect(had.stdout + again.stdout()).toBe(countedLines("line", lines));
    expect(had.stderr + countedErrors(again.stderr())).toBe(countedLines("err", lines));

    // Afterwards its end is still known, and asking runs nothing.
    expect((await gateway.cli(["nodes", "outcome", "devbox", callId, "--json"])).json).toMatchObject({
      callId,
      state: "ended",
      details: { exitCode: 7, stdoutBytes: countedLines("line", lines).length },
    });
  },
);

proves(
  "link.gateway-killed-at-most-once",
  "how a call ended whose gateway was killed is answered by its id, and it does not run again",
  patience,
  async () => {
    const { gateway, proxy, workspace, start } = kit;
    const content = "written once ".repeat(5_000);
    const before = proxy.counts.down.bytes;
    proxy.limit(20 * 1024);
    const args = JSON.stringify({ path: "once.txt", content });
    await using call = start(["tools", "call", "devbox__write", "--args", args]);
    // What is asked about it before has been answered; the answer to the write itself is lost.
    await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(content.length / 4);
    proxy.mend();
    proxy.swallow("up");
    await expect.poll(() => workspace.has("once.txt"), slowly).toBe(true);
    await gateway.kill("SIGKILL");
    expect((await call.ended).exitCode).toBe(5);
    const callId = hintedCall(call.stderr());
    await workspace.write({ "once.txt": "changed since" });
    proxy.mend();
    proxy.cut();
    await restartGateway();
    for (let asked = 0; asked < 2; asked += 1) {
      expect(await gateway.json(["nodes", "outcome", "devbox", callId])).toMatchObject({
        callId,
        state: "ended",
        details: { path: "once.txt" },
      });
    }
    expect(await workspace.text("once.txt")).toBe("changed since");
    // Nobody knows a call that never was.
    expect((await gateway.cli(["nodes", "outcome", "devbox", "never-was", "--json"])).json).toMatchObject({
      error: { code: "OUTCOME_UNKNOWN", details: { callId: "never-was" } },
    });
  },
);

proves(
  "link.gateway-killed-idempotent",
  "a read repeated after its gateway was killed and started again gives the undisturbed answer",
  patience,
  async () => {
    const { gateway, proxy, workspace, start } = kit;
    // Text that does not become much smaller when it is packed.
    await workspace.write({ "big.txt": randomBytes((9 * mebi) / 4).toString("base64") });
    const cat = ["files", "cat", "devbox:/app/big.txt"];
    const undisturbed = await gateway.cli(cat);
    proxy.limit(mebi);
    const before = proxy.counts.up.bytes;
    await using broken = start(cat);
    await expect.poll(() => proxy.counts.up.bytes - before, slowly).toBeGreaterThan(mebi);
    await gateway.kill("SIGKILL");
    proxy.mend();
    await restartGateway();
    // The one that was cut off goes on by itself behind what it has.
    expect((await broken.ended).exitCode).toBe(0);
    expect(broken.stdout() === undisturbed.stdout).toBe(true);
    const repeated = await gateway.cli(cat);
    expect(repeated.exitCode).toBe(0);
    expect(repeated.stdout === undisturbed.stdout).toBe(true);
    expect(repeated.stdout).toHaveLength(3 * mebi);
  },
);
