import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import {
  EntryKind,
  Files,
  WritePrecondition,
  type FilesWriteTreeRequestSchema,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import {
  countedErrors,
  countedLines,
  countingLine,
  startNodeBehindProxy,
  type NodeBehindProxy,
} from "../../support/node-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import type { Program } from "../../support/spawn-program.ts";
import { beginWrite } from "../../support/write-whole.ts";

// The agent of a machine is killed in the middle of its calls and started again: what it knew is on its disk.
const patience = { timeout: 120_000 };
const slowly = { timeout: 60_000, interval: 50 };
const kibi = 1024;
const mebi = kibi * kibi;
const lines = 300;

let kit: NodeBehindProxy;

beforeAll(async () => {
  kit = await startNodeBehindProxy();
}, 120_000);

afterAll(async () => {
  await kit[Symbol.asyncDispose]();
}, 60_000);

async function endOf(program: Program): Promise<{ exitCode: number | null; json: unknown }> {
  const { exitCode } = await program.ended;
  return { exitCode, json: JSON.parse(program.stdout()) as unknown };
}

function endedCalls(): number {
  using ledger = new DatabaseSync(`${kit.node.home}/node/ledger.db`, { readOnly: true });
  return ledger.prepare("SELECT * FROM calls WHERE ended_at IS NOT NULL").all().length;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A tree of one large file, as it is sent. */
async function* treeOfOne(
  workspace: string,
  sizeBytes: number,
): AsyncGenerator<MessageInitShape<typeof FilesWriteTreeRequestSchema>> {
  yield { header: { workspace, path: "tree", precondition: WritePrecondition.ANY } };
  const entry = { path: "one.bin", kind: EntryKind.FILE, sizeBytes: BigInt(sizeBytes), mode: 0o644 };
  yield { entries: [{ entry, streamed: true }] };
  const content = Buffer.alloc(256 * kibi, 1);
  for (let sent = 0; sent < sizeBytes; sent += content.byteLength) yield { content };
}

proves(
  "link.agent-restart-at-most-once",
  "after SIGKILL a finished call is answered from the disk, a running one is unknown, and neither runs again",
  patience,
  async () => {
    const { proxy, node, workspace } = kit;
    const socket = await findAdminSocket(join(kit.gateway.home, "gateway"));
    await using channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const files = channel.client(Files);
    // One that has ended on the node, and whose answer never comes through.
    const written = { workspace: "devbox:/app", path: "done.txt", content: "written once" };
    const entries = async (): Promise<number> => (await readdir(workspace.path)).length;
    const before = await entries();
    const finished = beginWrite(files, written);
    await expect.poll(entries, slowly).toBe(before + 1);
    proxy.swallow("up");
    finished.finish();
    await expect.poll(() => workspace.has("done.txt"), slowly).toBe(true);
    // The file is there before its record has an end.
    await expect.poll(endedCalls, slowly).toBe(1);
    await node.kill("SIGKILL");
    await workspace.write({ "done.txt": "changed since" });
    proxy.mend();
    proxy.cut();
    await node.restart();
    expect(await finished.answer).toMatchObject({ entry: { path: "done.txt" }, publication: "committed" });
    expect(await workspace.text("done.txt")).toBe("changed since");

    // One that was running.
    proxy.limit(8 * mebi);
    const sent = proxy.counts.down.bytes;
    const running = files
      .writeTree(treeOfOne("devbox:/app", 32 * mebi), { deadlineMs: 120_000 })
      .catch((error: unknown) => error);
    await expect.poll(() => proxy.counts.down.bytes - sent, slowly).toBeGreaterThan(8 * mebi);
    await node.kill("SIGKILL");
    proxy.mend();
    await node.restart();
    expect(await running).toMatchObject({
      code: "OUTCOME_UNKNOWN",
      retryable: false,
      details: { stage: "running", callId: expect.stringMatching(/\S/) },
    });
    expect(await workspace.has("tree/one.bin")).toBe(false);
  },
);

proves(
  "link.agent-restart-job",
  "a job survives SIGKILL and restart of its agent as the same process, and its caller gets all of it",
  patience,
  async () => {
    const { node, workspace, exec } = kit;
    await using call = exec(countingLine(lines, 7, 120));
    await expect.poll(() => call.stdout(), slowly).toContain("line 20\n");
    const pid = Number(await workspace.text("pid.txt"));
    await node.kill("SIGKILL");
    expect(isAlive(pid)).toBe(true);
    await node.restart();
    // Once more, as an upgrade does it: told to end, and started anew.
    await expect.poll(() => call.stdout(), slowly).toContain("line 120\n");
    expect(isAlive(pid)).toBe(true);
    expect((await node.kill("SIGTERM")).exitCode).toBe(0);
    expect(isAlive(pid)).toBe(true);
    await node.restart();
    await workspace.write({ go: "" });
    const { exitCode } = await call.ended;
    expect(exitCode).toBe(1);
    expect(call.stdout()).toBe(countedLines("line", lines));
    expect(countedErrors(call.stderr())).toBe(countedLines("err", lines));
    expect(isAlive(pid)).toBe(false);
  },
);

proves(
  "link.agent-restart-idempotent",
  "a read that meets the restart of its agent, by SIGKILL or by an upgrade, gives the same answer",
  patience,
  async () => {
    const { proxy, node, workspace, start } = kit;
    const text = randomBytes(kibi * 20).toString("hex");
    await workspace.write({ "some.txt": `${text}\n` });
    const args = JSON.stringify({ path: "some.txt" });
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      // So slow that the agent's own time to finish calls is over before the answer is through.
      proxy.limit(8 * kibi);
      const before = proxy.counts.up.bytes;
      await using read = start(["tools", "call", "devbox__read", "--args", args, "--json"]);
      await expect.poll(() => proxy.counts.up.bytes - before, slowly).toBeGreaterThan(8 * kibi);
      await node.kill(signal);
      proxy.mend();
      await node.restart();
      expect(await endOf(read), signal).toMatchObject({
        exitCode: 0,
        json: { content: [{ type: "text", text: expect.stringContaining(text) }] },
      });
    }
  },
);
