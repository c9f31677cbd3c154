import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { createDigester } from "../../../shared/content/digest.ts";
import { Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { freeReceived } from "../../../shared/rpc/chunk-memory.ts";
import { maxDeadlineMs } from "../../../shared/rpc/deadline.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { peakBytes, resetPeak } from "../support/processes.ts";
import { digestFile, writeRandomFile } from "./trees.ts";

const mebi = 1024 * 1024;
const sizeBytes = 1024 * mebi;
const workspace = "devbox:/app";
/** A transfer takes as long as it takes. */
const patience = { deadlineMs: maxDeadlineMs };
const env = { NODE_OPTIONS: "--max-old-space-size=128" };

/** Memory that a process holds now, in bytes. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024;
}

async function readWhole(client: Client<typeof Files>): Promise<string> {
  const digester = createDigester();
  for await (const { part } of client.read({ workspace, path: "source" }, patience)) {
    if (part.case !== "chunk") continue;
    digester.update(part.value);
    freeReceived(part.value);
  }
  expect(digester.sizeBytes).toBe(sizeBytes);
  return digester.digest();
}

async function writeWhole(client: Client<typeof Files>, path: string): Promise<string> {
  const digester = createDigester();
  const { entry } = await client.write(
    (async function* () {
      const header = { workspace, path, precondition: WritePrecondition.ANY, sizeBytes: BigInt(sizeBytes) };
      yield { part: { case: "header" as const, value: header } };
      const value = Buffer.alloc(256 * 1024, path);
      for (let sent = 0; sent < sizeBytes; sent += value.length) {
        digester.update(value);
        yield { part: { case: "chunk" as const, value } };
      }
      const trailer = { sizeBytes: BigInt(sizeBytes), digest: digester.digest() };
      yield { part: { case: "trailer" as const, value: trailer } };
    })(),
    patience,
  );
  expect(entry?.digest).toBe(digester.digest());
  return entry?.digest ?? "";
}

const mostBytes = 128 * mebi;

proves(
  "files.bench-constant-memory",
  "nine transfers of a gigabyte beside one that stands still cost node and gateway no more than a little",
  { timeout: 1_200_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using gateway = await startGateway({ env });
    await writeRandomFile(folder.join("source"), sizeBytes);
    const expected = `sha256:${await digestFile(folder.join("source"))}`;
    const workspaces = { app: `${folder.path}:rw` };
    await using node = await startNode({ gateway, workspaces, profile: "work", env });
    const socket = await findAdminSocket(join(gateway.home, "gateway"));
    await using channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const client = channel.client(Files);
    // What a first call loads is no part of a transfer.
    await client.stat({ workspace, path: "source" });
    await systemClock.sleep(1_000);
    const pids = { gateway: gateway.pid, node: node.pid };
    const idle = { gateway: await residentBytes(pids.gateway), node: await residentBytes(pids.node) };
    await Promise.all(Object.values(pids).map(resetPeak));
    const paused = client.read({ workspace, path: "source" }, patience)[Symbol.asyncIterator]();
    for (let taken = 0; taken < 2; taken += 1) expect((await paused.next()).done).toBe(false);
    const reads = Array.from({ length: 5 }, () => readWhole(client));
    const writes = Array.from({ length: 4 }, (_, at) => writeWhole(client, `target${at}`));
    const digests = await Promise.all([...reads, ...writes]);
    expect(digests.slice(0, reads.length)).toEqual(reads.map(() => expected));
    // It stood still all the time, and goes on now.
    expect((await paused.next()).done).toBe(false);
    for (const who of ["gateway", "node"] as const) {
      const grownBytes = (await peakBytes(pids[who])) - idle[who];
      console.log(
        `${who}: ${(idle[who] / mebi).toFixed(0)} MiB idle, grew by ${(grownBytes / mebi).toFixed(0)} MiB at most`,
      );
    }
    await paused.return?.();
    for (const who of ["gateway", "node"] as const)
      expect((await peakBytes(pids[who])) - idle[who]).toBeLessThan(mostBytes);
  },
);
