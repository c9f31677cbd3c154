import { afterAll, beforeAll, expect } from "vitest";
import { findProcesses } from "../../support/find-processes.ts";
import {
  countedErrors,
  countedLines,
  countingLine,
  startNodeBehindProxy,
  type NodeBehindProxy,
} from "../../support/node-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import type { Program } from "../../support/spawn-program.ts";

// What becomes of calls whose link is cut, and of those whose machine never comes back.
const patience = { timeout: 120_000 };
const slowly = { timeout: 60_000, interval: 50 };
const lines = 200;

let kit: NodeBehindProxy;

beforeAll(async () => {
  kit = await startNodeBehindProxy();
}, 120_000);

afterAll(async () => {
  await kit[Symbol.asyncDispose]();
}, 60_000);

proves(
  "link.cut-job",
  "a job goes on while its link is cut, and its output then goes on at the next byte",
  patience,
  async () => {
    const { proxy, workspace, exec } = kit;
    await using call = exec(countingLine(lines, 0, 120));
    for (const line of ["line 10\n", "line 60\n"]) {
      await expect.poll(() => call.stdout(), slowly).toContain(line);
      proxy.refuse();
      proxy.cut();
      // What had come as far as the gateway is still printed.
      let before = "";
      const isStill = (): boolean => before === (before = call.stdout());
      await expect.poll(isStill, { ...slowly, interval: 500 }).toBe(true);
      const pid = Number(await workspace.text("pid.txt"));
      expect(findProcesses("pid.txt")).toContain(pid);
      expect(call.stdout()).toBe(before);
      await proxy.accept();
    }
    await workspace.write({ go: "" });
    expect((await call.ended).exitCode).toBe(0);
    expect(call.stdout()).toBe(countedLines("line", lines));
    expect(countedErrors(call.stderr())).toBe(countedLines("err", lines));
  },
);

proves(
  "link.machine-lost",
  "calls of a machine that never comes back end by their deadline, each as its class says",
  patience,
  async () => {
    const { proxy, node, workspace, start, exec } = kit;
    const deadline = ["--deadline", "12s"];
    await using job = exec('echo "so far"; sleep 600', deadline);
    await expect.poll(() => job.stdout(), slowly).toContain("so far\n");
    // A write and a read that have reached the machine, which answers nothing any more. What is asked about the write
    // before was answered once so much of it is on its way, and it is frozen before it has all of it.
    const call = (tool: string, args: object): Program => {
      const json = JSON.stringify(args);
      return start(["tools", "call", `devbox__${tool}`, "--args", json, ...deadline, "--json"]);
    };
    const content = "nobody knows ".repeat(5_000);
    const before = proxy.counts.down.bytes;
    const untilSent = async (bytes: number): Promise<void> =>
      await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(bytes);
    proxy.limit(20 * 1024);
    await using once = call("write", { path: "new.txt", content });
    await untilSent(content.length / 4);
    node.signal("SIGSTOP");
    proxy.mend();
    await untilSent(content.length);
    const sent = proxy.counts.down.bytes - before;
    await using read = call("read", { path: "MEMORY.md" });
    await untilSent(sent + 100);
    await node.kill("SIGKILL");

    expect((await job.ended).exitCode).toBe(1);
    expect(job.stdout()).toBe("so far\n");
    expect(job.stderr()).toContain("OUTCOME_UNKNOWN");
    expect((await once.ended).exitCode).toBe(1);
    expect(JSON.parse(once.stdout())).toMatchObject({ error: { code: "OUTCOME_UNKNOWN" } });
    expect((await read.ended).exitCode).toBe(5);
    expect(JSON.parse(read.stdout())).toMatchObject({ error: { code: "NODE_OFFLINE" } });
    expect(await workspace.has("new.txt")).toBe(false);
  },
);
