import { writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorkspaceRegistry, type WorkspaceRegistry } from "../../../gateway/files/registry.ts";
import type { Presence } from "../../../gateway/link/links.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { FileOperation, Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { faultOf as laterFaultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { openTempExports } from "../../unit/workspace/temp-exports.ts";
import { createDirectClient } from "./direct-client.ts";

const offer = { nodeId: "n1", workspace: "app", writable: true, containment: "kernel", leaseEpoch: 1n };

async function makeNode(): Promise<AsyncDisposable & { client: Client<typeof Files>; file: string }> {
  const temp = await openTempExports((dir) => writeFileSync(join(dir, "a.txt"), "on the node"));
  return {
    client: createDirectClient(Files, temp.files),
    file: join(temp.dir, "a.txt"),
    [Symbol.asyncDispose]: () => temp[Symbol.asyncDispose](),
  };
}

function makeRegistry(state: Presence["state"] = "online"): WorkspaceRegistry {
  const links = {
    find: () => undefined,
    get: (nodeId: string) => {
      throw new Fault("NODE_OFFLINE", `${nodeId} is offline`);
    },
    presence: (nodeId: string): Presence => ({
      nodeId,
      state,
      sinceMs: 0,
      reason: "linked",
      generation: 1,
      lastSeenMs: 0,
      address: "",
      hello: undefined,
    }),
  };
  return createWorkspaceRegistry({ links, clock: systemClock });
}

function faultOf(work: () => unknown): Fault {
  try {
    work();
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("no fault");
}

proves(
  "files.access-states",
  "a workspace is not started, then acts on the node, then is stopped",
  async () => {
    await using node = await makeNode();
    const registry = makeRegistry();
    registry.declare([{ name: "work", nodeId: "n1", root: "/app" }]);
    const declared = faultOf(() => registry.acquire({ name: "work" }));
    expect([declared.code, declared.details["reason"]]).toEqual([
      "WORKSPACE_ACCESS_UNAVAILABLE",
      "not_started",
    ]);

    const registration = registry.register(offer, () => node.client);
    const handle = registry.acquire({ name: "work" });
    expect(Number((await handle.files.stat({ path: "a.txt" })).entry?.sizeBytes)).toBe(11);
    await writeFile(node.file, "changed there");
    expect(Number((await handle.files.stat({ path: "a.txt" })).entry?.sizeBytes)).toBe(13);

    registration.release();
    const stopped = faultOf(() => registry.acquire({ nodeId: "n1", workspace: "app" }));
    expect([stopped.code, stopped.details["reason"]]).toEqual(["WORKSPACE_ACCESS_UNAVAILABLE", "stopped"]);
    expect(faultOf(() => registry.acquire({ name: "other" })).code).toBe("NOT_FOUND");
  },
);

async function drain(messages: AsyncIterable<unknown>): Promise<void> {
  for await (const message of messages) void message;
}

async function* noMessages(): AsyncGenerator<never, void> {
  // Nothing is sent.
}

proves(
  "files.access-old-handle-dead",
  "every method of an old handle fails while a new one works, and a second release changes nothing",
  async () => {
    await using node = await makeNode();
    const registry = makeRegistry();
    const first = registry.register(offer, () => node.client);
    const { files: old } = registry.acquire(offer);
    first.release();
    registry.register(offer, () => node.client);
    first.release();
    const calls: Record<keyof Client<typeof Files>, () => Promise<unknown>> = {
      listExports: () => old.listExports({}),
      stat: () => old.stat({ path: "a.txt" }),
      list: () => old.list({ path: "" }),
      read: () => drain(old.read({ path: "a.txt" })),
      write: () => old.write(noMessages()),
      remove: () => old.remove({ path: "a.txt" }),
      move: () => old.move({ from: "a.txt", to: "b.txt" }),
      makeFolder: () => old.makeFolder({ path: "d" }),
      findPart: () => old.findPart({ path: "a.txt", partKey: "k" }),
      listChunks: () => drain(old.listChunks({ path: "a.txt" })),
      dropPart: () => old.dropPart({ path: "a.txt", partKey: "k" }),
      preflight: () => old.preflight({ path: "a.txt", operation: FileOperation.READ }),
      readTree: () => drain(old.readTree({ path: "" })),
      writeTree: () => old.writeTree(noMessages()),
      manifest: () => drain(old.manifest({ path: "" })),
      watch: () => drain(old.watch({ path: "" })),
      barrier: () => old.barrier({}),
    };
    for (const [name, call] of Object.entries(calls)) {
      const fault = await laterFaultOf(call());
      expect([name, fault.code]).toEqual([name, "WORKSPACE_ACCESS_UNAVAILABLE"]);
    }
    const { entries } = await registry.acquire(offer).files.list({ path: "" });
    expect(entries.map((entry) => entry.path)).toEqual(["a.txt"]);
  },
);

proves("files.access-one-binding", "equal roots are one binding, and nothing is bound twice", async () => {
  await using node = await makeNode();
  const registry = makeRegistry();
  registry.declare([
    { name: "w", nodeId: "n1", root: "/app" },
    { name: "w", nodeId: "n1", root: "/app/" },
    { name: "w", nodeId: "n1", root: "/app/." },
  ]);
  expect(registry.list()).toHaveLength(1);

  for (const second of [
    { name: "x", nodeId: "n2", root: "/app" },
    { name: "x", nodeId: "n1", root: "/other" },
  ]) {
    const fault = faultOf(() => registry.declare([{ name: "x", nodeId: "n1", root: "/app" }, second]));
    expect([fault.code, fault.details["field"]]).toEqual(["INVALID_ARGUMENT", "workspaces[1]"]);
    expect(faultOf(() => registry.acquire({ name: "x" })).code).toBe("NOT_FOUND");
  }

  registry.register(offer, () => node.client);
  const handle = registry.acquire({ name: "w" });
  expect(faultOf(() => registry.register(offer, () => node.client)).code).toBe("ALREADY_EXISTS");
  expect((await handle.files.stat({ path: "a.txt" })).entry?.path).toBe("a.txt");
});

test("what nobody exports is missing only when its node is there to say so", () => {
  const away = makeRegistry("offline");
  const fault = faultOf(() => away.acquire({ nodeId: "n1", workspace: "app" }));
  expect([fault.code, fault.details["reason"], fault.retryable]).toEqual([
    "WORKSPACE_ACCESS_UNAVAILABLE",
    "node_offline",
    true,
  ]);
  const revoked = faultOf(() => makeRegistry("revoked").acquire({ nodeId: "n1", workspace: "app" }));
  expect([revoked.details["reason"], revoked.retryable]).toEqual(["revoked", false]);
});

test("a registration that ends aborts what runs under it", async () => {
  await using node = await makeNode();
  const registry = makeRegistry();
  const registration = registry.register(offer, () => node.client);
  const handle = registry.acquire(offer);
  const reading = handle.files.read({ path: "a.txt" })[Symbol.asyncIterator]();
  await reading.next();
  registration.release("node_offline");
  const fault = await laterFaultOf(reading.next());
  expect([fault.code, fault.details["reason"]]).toEqual(["WORKSPACE_ACCESS_UNAVAILABLE", "node_offline"]);
});

test("what runs while its workspace is exported anew ends with words that say so", async () => {
  await using node = await makeNode();
  const registry = makeRegistry();
  const registration = registry.register(offer, () => node.client);
  const handle = registry.acquire(offer);
  registration.release("replaced");
  const fault = faultOf(() => handle.check());
  expect(fault).toMatchObject({
    code: "WORKSPACE_ACCESS_UNAVAILABLE",
    hint: "repeat the command",
    retryable: true,
    details: { reason: "stopped" },
  });
  expect(fault.message).toContain("exported anew");
});
