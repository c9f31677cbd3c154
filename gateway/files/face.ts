import type { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { MethodImplementation, ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Nodes } from "../pairing/nodes.ts";
import type { DecideFile } from "./file-question.ts";
import { passManifest } from "./pass-manifest.ts";
import { passRead, passTree } from "./pass-reads.ts";
import { passBarrier, passWatch } from "./pass-watch.ts";
import { passWrite, passWriteTree } from "./pass-writes.ts";
import type { ReadMemory } from "./read-memory.ts";
import type { WorkspaceRegistry } from "./registry.ts";
import { callOptions, findTarget, judgeBefore, toSource } from "./target.ts";

/** What the face stands on. */
export interface FilesFaceOptions {
  readonly registry: WorkspaceRegistry;
  readonly nodes: Pick<Nodes, "resolve" | "find">;
  /** The gateway's policy: asked on the requested path before the node is called, and on the canonical one it reports. */
  readonly decide: DecideFile;
  readonly clock: Clock;
  /** Without it a write without a condition never replaces anything. */
  readonly reads?: ReadMemory;
}

type Methods = (typeof Files)["method"];

/**
 * The `Files` service as the gateway serves it to its clients: a workspace is `NODE:/NAME`. Every call asks policy, holds
 * a lease, and is passed on to the node as it streams; nothing is answered from the gateway's own disk.
 */
export function createFilesFace(options: FilesFaceOptions): ServiceImplementation<typeof Files> {
  return {
    listExports: () => listExports(options),
    stat: stat(options),
    list: list(options),
    remove: remove(options),
    move: move(options),
    makeFolder: makeFolder(options),
    findPart: findPart(options),
    dropPart: dropPart(options),
    read: (request, context) => passRead(options, request, context),
    readTree: (request, context) => passTree(options, request, context),
    watch: (request, context) => passWatch(options, request, context),
    barrier: (request, context) => passBarrier(options, request, context),
    manifest: (request, context) => passManifest(options, request, context),
    write: (requests, context) => passWrite(options, requests, context),
    writeTree: (requests, context) => passWriteTree(options, requests, context),
  };
}

async function listExports(
  options: FilesFaceOptions,
): ReturnType<MethodImplementation<Methods["listExports"]>> {
  const aliases = new Map<string, string>();
  // What is gone for good is no workspace; `nodes show` says why.
  const states = options.registry.list().filter(({ reason }) => reason !== "revoked");
  for (const nodeId of new Set(states.map((state) => state.nodeId))) {
    aliases.set(nodeId, (await options.nodes.find(nodeId))?.alias ?? nodeId);
  }
  return {
    exports: states.map((state) => ({
      workspace: `${aliases.get(state.nodeId) ?? state.nodeId}:/${state.workspace}`,
      writable: state.writable,
      containment: state.containment,
      state: state.state,
      reason: state.reason ?? "",
      sinceMs: BigInt(state.sinceMs),
      leaseEpoch: BigInt(state.epoch),
    })),
  };
}

function stat(options: FilesFaceOptions): MethodImplementation<Methods["stat"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "read" }, context);
    const answer = await target.handle.files.stat({ path: target.path }, callOptions(context));
    const source = toSource(target, answer.source);
    await target.judge(source.canonicalPath);
    return { ...answer, source };
  };
}

function list(options: FilesFaceOptions): MethodImplementation<Methods["list"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "list" }, context);
    const asked = { ...request, path: target.path };
    const answer = await target.handle.files.list(asked, callOptions(context));
    const source = toSource(target, answer.source);
    await target.judge(source.canonicalPath);
    const entries = [];
    for (const entry of answer.entries) if (!(await target.denial(entry.path))) entries.push(entry);
    return { ...answer, entries, source };
  };
}

function remove(options: FilesFaceOptions): MethodImplementation<Methods["remove"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "remove" }, context);
    await judgeBefore(target, target.path);
    const answer = await target.handle.files.remove({ ...request, path: target.path }, callOptions(context));
    return { ...answer, source: toSource(target, answer.source) };
  };
}

function move(options: FilesFaceOptions): MethodImplementation<Methods["move"]> {
  return async (request, context) => {
    const { workspace } = request;
    const from = await findTarget(
      options,
      { workspace, path: request.from, verb: "move", field: "from" },
      context,
    );
    const to = await findTarget(options, { workspace, path: request.to, verb: "move", field: "to" }, context);
    await judgeBefore(from, from.path);
    const asked = { from: from.path, to: to.path };
    const answer = await from.handle.files.move(asked, callOptions(context));
    return { ...answer, source: toSource(to, answer.source) };
  };
}

function makeFolder(options: FilesFaceOptions): MethodImplementation<Methods["makeFolder"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "mkdir" }, context);
    const answer = await target.handle.files.makeFolder(
      { ...request, path: target.path },
      callOptions(context),
    );
    return { ...answer, source: toSource(target, answer.source) };
  };
}

function findPart(options: FilesFaceOptions): MethodImplementation<Methods["findPart"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "write" }, context);
    const answer = await target.handle.files.findPart(
      { ...request, path: target.path },
      callOptions(context),
    );
    const source = toSource(target, answer.source);
    await target.judge(source.canonicalPath);
    return { ...answer, source };
  };
}

function dropPart(options: FilesFaceOptions): MethodImplementation<Methods["dropPart"]> {
  return async (request, context) => {
    const target = await findTarget(options, { ...request, verb: "write" }, context);
    await judgeBefore(target, target.path);
    const answer = await target.handle.files.dropPart(
      { ...request, path: target.path },
      callOptions(context),
    );
    return { ...answer, source: toSource(target, answer.source) };
  };
}
