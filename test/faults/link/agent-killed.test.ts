import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect } from "vitest";
import { memberOf } from "../../support/cli-fault.ts";
import { type GatewayBehindProxy, startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { type Program, spawnProgram } from "../../support/spawn-program.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

// The agent of a machine is killed in the middle of its calls and started again: what it knew is on its disk.
const patience = { timeout: 120_000 };
const slowly = { timeout: 60_000, interval: 50 };
const mebi = 1024 * 1024;

let stack: AsyncDisposableStack;
let kit: GatewayBehindProxy;
let workspace: TempWorkspace;
let node: TestNode;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  kit = stack.use(await startGatewayBehindProxy());
  workspace = stack.use(await makeTempWorkspace({ "MEMORY.md": "# Kept\n" }));
  node = stack.use(
    await startNode({
      gateway: kit.gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

function startCall(args: readonly string[]): Program {
  return spawnProgram([...args, "--json"], { home: kit.gateway.home });
}

async function endOf(program: Program): Promise<{ exitCode: number | null; json: unknown }> {
  const { exitCode } = await program.ended;
  return { exitCode, json: JSON.parse(program.stdout()) as unknown };
}

proves(
  "link.agent-restart-at-most-once",
  "after SIGKILL a finished call is answered from the disk, a running one is unknown, and neither runs again",
  patience,
  async () => {
    const { proxy } = kit;
    // One that has ended on the node, and whose answer never comes through.
    proxy.swallow("up");
    const content = JSON.stringify({ path: "done.txt", content: "written once" });
    await using finished = startCall(["tools", "call", "devbox__write", "--args", content]);
    await expect.poll(() => workspace.has("done.txt"), slowly).toBe(true);
    // What stands in the ledger by then is looked at from outside: the file is there before its record has an end.
    await expect
      .poll(async () => (await ledgerRows()).filter((row) => row["ended_at"] !== null))
      .toHaveLength(1);
    await node.kill("SIGKILL");
    await workspace.write({ "done.txt": "changed since" });
    proxy.mend();
    proxy.cut();
    await node.restart();
    const done = await endOf(finished);
    expect(done).toMatchObject({ exitCode: 0, json: { details: { path: "done.txt" } } });
    expect(await workspace.text("done.txt")).toBe("changed since");

    // One that was running.
    await using tree = await makeTempWorkspace({ "one.bin": Buffer.alloc(32 * mebi, 1) });
    proxy.limit(8 * mebi);
    const before = proxy.counts.down.bytes;
    await using running = startCall(["files", "put", tree.path, "devbox:/app/tree"]);
    await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(8 * mebi);
    await node.kill("SIGKILL");
    proxy.mend();
    await node.restart();
    const lost = await endOf(running);
    expect(lost).toMatchObject({
      exitCode: 1,
      json: { error: { code: "OUTCOME_UNKNOWN", retryable: false, details: { stage: "running" } } },
    });
    const callId = memberOf(memberOf(memberOf(lost.json, "error"), "details"), "callId");
    expect(callId).toMatch(/\S/);
    expect(await workspace.has("tree/one.bin")).toBe(false);
  },
);

async function ledgerRows(): Promise<readonly Record<string, unknown>[]> {
  using home = new DatabaseSync(`${node.home}/node/ledger.db`, { readOnly: true });
  return home.prepare("SELECT * FROM calls").all();
}
