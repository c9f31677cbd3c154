import { symlink } from "node:fs/promises";
import { expect } from "vitest";
import { type MemoryHost, startMemory } from "../../../node-agent/memory/memory.ts";
import { startWorkerProcess } from "../../../node-agent/workers/worker-process.ts";
import { toWorkerPlan, type WorkerWorkspaces } from "../../../node-agent/workers/worker-settings.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import type { Entry } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Memory } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectLinks } from "../../support/direct-link.ts";
import { toExport } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { runWorker } from "../../support/run-worker.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 180_000;
const environment = { HOME: "/", PATH: "/usr/bin:/bin" };
const signal = new AbortController().signal;

type Request =
  | { readonly operation: "list" }
  | { readonly operation: "inspect"; readonly paths: readonly string[] }
  | {
      readonly operation: "read";
      readonly path: string;
      readonly from?: number;
      readonly lines?: number;
      readonly maxChars?: number;
    };

const requests: readonly Request[] = [
  { operation: "list" },
  {
    operation: "inspect",
    paths: ["MEMORY.md", "memory/a.md", "memory/gone.md", "memory/bytes.md", "memory/link.md"],
  },
  { operation: "inspect", paths: ["notes.md"] },
  { operation: "inspect", paths: ["../MEMORY.md"] },
  { operation: "inspect", paths: Array.from({ length: 10_001 }, () => "MEMORY.md") },
  { operation: "read", path: "MEMORY.md" },
  { operation: "read", path: "MEMORY.md", from: 2, lines: 1 },
  { operation: "read", path: "MEMORY.md", from: 99 },
  { operation: "read", path: "MEMORY.md", maxChars: 5 },
  { operation: "read", path: "MEMORY.md", maxChars: 2 * 1024 * 1024 },
  { operation: "read", path: "USER.md" },
  { operation: "read", path: "memory/gone.md" },
  { operation: "read", path: "notes.md" },
  { operation: "read", path: "absent.md" },
  { operation: "read", path: "/etc/hostname" },
  { operation: "read", path: "memory/../notes.md" },
  { operation: "read", path: "memory/bytes.md" },
  { operation: "read", path: "memory/long.md" },
  { operation: "read", path: "memory/link.md" },
];

/** What an answer says, whichever way it came; an error is its code. */
type Answer = unknown;

async function askByExchange(dir: string, request: Request): Promise<Answer> {
  const { stdout } = await runWorker(["--files", dir], JSON.stringify(request));
  const document = JSON.parse(stdout) as {
    readonly result?: Record<string, unknown>;
    readonly error?: { readonly code: string };
  };
  if (document.error) return document.error.code;
  const result = document.result ?? {};
  if (request.operation === "read") {
    const { text, status, firstLine = 0, lastLine = 0, totalLines = 0, truncated = false } = result;
    const { digest = "", canonicalPath = "" } = result;
    return { text, status, firstLine, lastLine, totalLines, truncated, digest, canonicalPath };
  }
  const files = (result["files"] as readonly ({ readonly error?: { readonly code: string } } | null)[]).map(
    (file) => file?.error?.code ?? file,
  );
  if (request.operation === "inspect") return { files };
  const skipped = result["skipped"] as readonly { readonly path: string; readonly code: string }[];
  return { files, skipped: skipped.map(({ path, code }) => ({ path, code })) };
}

async function askByClient(client: Client<typeof Memory>, request: Request): Promise<Answer> {
  try {
    return await callClient(client, request);
  } catch (error) {
    if (error instanceof Fault) return error.code;
    throw error;
  }
}

async function callClient(client: Client<typeof Memory>, request: Request): Promise<Answer> {
  const workspace = "app";
  switch (request.operation) {
    case "list": {
      const files: unknown[] = [];
      const skipped: unknown[] = [];
      for await (const part of client.list({ workspace }, { signal })) {
        files.push(...part.files.map(toFile));
        for (const { path, fault } of part.skipped)
          skipped.push({ path, code: fault && fromWireFault(fault).code });
      }
      return { files, skipped };
    }
    case "inspect": {
      const { files } = await client.inspect({ workspace, paths: [...request.paths] }, { signal });
      return {
        files: files.map(({ file, fault }) =>
          fault ? fromWireFault(fault).code : file ? toFile(file) : null,
        ),
      };
    }
    case "read": {
      const { operation: _, ...range } = request;
      const answer = await client.read({ workspace, ...range }, { signal });
      const { text, status, firstLine, lastLine, totalLines, truncated, digest } = answer;
      const canonicalPath = answer.source?.canonicalPath ?? "";
      return { text, status, firstLine, lastLine, totalLines, truncated, digest, canonicalPath };
    }
  }
}

function toFile({ path, sizeBytes, modifiedNs, digest }: Entry): unknown {
  const modified = new Date(Number(modifiedNs / 1_000_000n)).toISOString();
  return { path, sizeBytes: Number(sizeBytes), modified, digest };
}

proves(
  "memory.same-answers-everywhere",
  "one exchange, framed stdio and the gateway's client answer alike, also after the worker was started again",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "one\ntwo\nthree\n",
      "notes.md": "no memory\n",
      "memory/a.md": "a\n",
      "memory/deep/b.md": "b\n",
      "memory/bytes.md": Buffer.from([0xff, 0xfe, 0x00]),
      "memory/long.md": "x".repeat(1024 * 1024 + 1),
    });
    await symlink("a.md", workspace.join("memory/link.md"));
    const expected: Answer[] = [];
    for (const request of requests) expected.push(await askByExchange(workspace.path, request));
    expect(expected[0]).toMatchObject({
      files: [{ path: "MEMORY.md" }, { path: "memory/a.md" }, { path: "memory/deep/b.md" }],
      skipped: [
        { path: "memory/bytes.md", code: "UNSUPPORTED_FILE_TYPE" },
        { path: "memory/link.md", code: "SYMLINK_REFUSED" },
        { path: "memory/long.md", code: "TOO_LARGE" },
      ],
    });
    expect(expected[1]).toMatchObject({
      files: [
        { path: "MEMORY.md" },
        { path: "memory/a.md" },
        null,
        "UNSUPPORTED_FILE_TYPE",
        "SYMLINK_REFUSED",
      ],
    });
    expect(expected.slice(12, 14)).toEqual(["POLICY_DENIED", "POLICY_DENIED"]);

    const workspaces: WorkerWorkspaces = {
      workspaces: [toExport("app", workspace.path)],
      homeDir: workspace.join(".fairlead"),
      limits: { treeEntries: 1_000_000, treeDepth: 64 },
    };
    const askAll = async (client: Client<typeof Memory>): Promise<readonly Answer[]> => {
      const answers: Answer[] = [];
      for (const request of requests) answers.push(await askByClient(client, request));
      return answers;
    };
    {
      const plan = toWorkerPlan(workspaces);
      await using lasting = startWorkerProcess({
        kind: "memory",
        ...plan,
        environment,
        clock: systemClock,
        log: silentLog,
      });
      expect(await askAll(lasting.stdio.client(Memory))).toEqual(expected);
    }
    await using host: MemoryHost = startMemory({ workspaces: () => workspaces, environment, log: silentLog });
    const client = createDirectLinks()
      .connect({ nodeId: "devbox", services: [host.service] })
      .client(Memory);
    expect(await askAll(client)).toEqual(expected);
    const before = host.pid;
    await host.reload();
    expect(await askAll(client)).toEqual(expected);
    expect(host.pid).not.toBe(before);
  },
);
