import { systemClock } from "../../../shared/lifetime/clock.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { cpuSeconds, peakBytes, resetPeak } from "../support/processes.ts";
import type { Run } from "../support/report.ts";

/** A gateway and a node that exports one folder, both the real programs. */
export interface Pair extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly node: TestNode;
  /** Runs `fairlead files …` to its end and measures all three processes. */
  files(args: readonly string[]): Promise<Run>;
}

/** A pair whose line is counted. */
export interface CountedPair extends Pair {
  readonly proxy: FaultProxy;
  /** Bytes between node and gateway so far, both ways. */
  wireBytes(): number;
}

/** Starts both with a proxy between them; the folder is exported as `app`, to be written too. */
export async function startCountedPair(folder: string): Promise<CountedPair> {
  await using stack = new AsyncDisposableStack();
  const { gateway, proxy } = stack.use(await startGatewayBehindProxy());
  const node = stack.use(await startExport(gateway, folder));
  const owned = stack.move();
  return {
    gateway,
    node,
    files: (args) => measureFiles(gateway, node, args),
    proxy,
    wireBytes: () => proxy.counts.up.bytes + proxy.counts.down.bytes,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Starts both; the folder is exported as `app`, to be written too. */
export async function startPair(folder: string): Promise<Pair> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway());
  const node = stack.use(await startExport(gateway, folder));
  const owned = stack.move();
  return {
    gateway,
    node,
    files: (args) => measureFiles(gateway, node, args),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function startExport(gateway: TestGateway, folder: string): Promise<TestNode> {
  return startNode({ gateway, workspaces: { app: `${folder}:rw` }, profile: "work" });
}

async function measureFiles(gateway: TestGateway, node: TestNode, args: readonly string[]): Promise<Run> {
  const servers = [gateway.pid, node.pid];
  await Promise.all(servers.map(resetPeak));
  const before = await sumCpu(servers);
  const startedAt = performance.now();
  await using program = spawnProgram(["files", ...args, "--json"], { home: gateway.home });
  const seen = { cpu: 0, peak: 0, ended: false };
  const watching = watch(program.pid, seen);
  const { exitCode } = await program.ended;
  const wallMs = performance.now() - startedAt;
  seen.ended = true;
  await watching;
  if (exitCode !== 0)
    throw new Error(`files ${args.join(" ")} exited ${exitCode}: ${program.stdout()} ${program.stderr()}`);
  return {
    wallMs,
    cpuSeconds: (await sumCpu(servers)) - before + seen.cpu,
    peaks: { node: await peakBytes(node.pid), gateway: await peakBytes(gateway.pid), command: seen.peak },
  };
}

/** The command's own numbers vanish with it: the last ones that were seen count. */
async function watch(pid: number, seen: { cpu: number; peak: number; ended: boolean }): Promise<void> {
  while (!seen.ended) {
    seen.cpu = Math.max(seen.cpu, await cpuSeconds(pid));
    seen.peak = Math.max(seen.peak, await peakBytes(pid));
    await systemClock.sleep(25);
  }
}

async function sumCpu(pids: readonly number[]): Promise<number> {
  const all = await Promise.all(pids.map(cpuSeconds));
  return all.reduce((sum, seconds) => sum + seconds, 0);
}
