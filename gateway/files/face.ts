import type { Files, WorkspaceFreshness } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext, MethodImplementation, ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Nodes } from "../pairing/nodes.ts";
import { type BootstrapDocuments, requireBootstrap } from "./bootstrap-documents.ts";
import { checkDigest, checkListing } from "./check-arguments.ts";
import { askFreshness, freshnessKey } from "./freshness.ts";
import { perform, type OperationOptions } from "./operation.ts";
import { passManifest } from "./pass-manifest.ts";
import { passChunks, passRead, passTree } from "./pass-reads.ts";
import { passBarrier, passWatch } from "./pass-watch.ts";
import { passWrite, passWriteTree } from "./pass-writes.ts";
import type { ReadMemory } from "./read-memory.ts";
import type { WorkspaceRegistry } from "./registry.ts";
import { callOptions, type Target } from "./target.ts";

/** What the face stands on. */
export interface FilesFaceOptions extends OperationOptions {
  readonly registry: WorkspaceRegistry;
  readonly nodes: Pick<Nodes, "resolve" | "find">;
  /** What the bootstrap view opens; without it, the documents in a workspace's root. */
  readonly bootstrap?: BootstrapDocuments;
  /** Without it a write without a condition never replaces anything. */
  readonly reads?: ReadMemory;
}

type Methods = (typeof Files)["method"];

/**
 * The `Files` service as the gateway serves it to its clients: a workspace is `NODE:/NAME`. Every call asks policy, and
 * where policy says so a person; it holds a lease, is recorded, and is passed on to the node as it streams. Nothing is
 * answered from the gateway's own disk.
 */
export function createFilesFace(options: FilesFaceOptions): ServiceImplementation<typeof Files> {
  return {
    listExports: ({ node }, context) => listExports(options, node, context),
    stat: stat(options),
    list: list(options),
    remove: remove(options),
    move: move(options),
    makeFolder: makeFolder(options),
    findPart: findPart(options),
    dropPart: dropPart(options),
    read: (request, context) => passRead(options, request, context),
    listChunks: (request, context) => passChunks(options, request, context),
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
  node: string,
  context: CallContext,
): ReturnType<MethodImplementation<Methods["listExports"]>> {
  const aliases = new Map<string, string>();
  // What is gone for good is no workspace; `nodes show` says why.
  const known = options.registry.list().filter(({ reason }) => reason !== "revoked");
  for (const nodeId of new Set(known.map((state) => state.nodeId))) {
    aliases.set(nodeId, (await options.nodes.find(nodeId))?.alias ?? nodeId);
  }
  const states = known.filter(({ nodeId }) => node === "" || aliases.get(nodeId) === node);
  const fresh = await askFreshness(options.registry, states, context);
  return {
    exports: states.map((state) => ({
      ...toFreshness(fresh.get(freshnessKey(state))),
      workspace: `${aliases.get(state.nodeId) ?? state.nodeId}:/${state.workspace}`,
      writable: state.writable,
      containment: state.containment,
      ignoresCase: state.folding.case,
      ignoresForm: state.folding.form,
      acceptsPacked: state.acceptsPacked,
      state: state.state,
      reason: state.reason ?? "",
      sinceMs: BigInt(state.sinceMs),
      leaseEpoch: BigInt(state.epoch),
    })),
  };
}

function toFreshness(freshness: WorkspaceFreshness | undefined): { freshness?: WorkspaceFreshness } {
  return freshness ? { freshness } : {};
}

function stat(options: FilesFaceOptions): MethodImplementation<Methods["stat"]> {
  return (request, context) => {
    const { askNobody } = request;
    const asked = { ...place(request), verb: "read", kind: "stat", askNobody, context } as const;
    return perform(options, asked, async (operation) => {
      const { target, pin } = operation;
      const named = { path: target.path, ...(pin ? { pin } : {}) };
      const answer = await target.handle.files.stat(named, callOptions(operation.context));
      return { ...answer, source: await operation.judged(answer.source) };
    });
  };
}

function list(options: FilesFaceOptions): MethodImplementation<Methods["list"]> {
  return (request, context) => {
    const { recursive, limit, cursor } = request;
    const kind = recursive ? "list_tree" : "list";
    const check = (path: WorkspacePath): void => {
      checkListing(request, path);
      if (request.bootstrap) requireBootstrap(options.bootstrap, "list", path);
    };
    return perform(options, { ...place(request), verb: "list", kind, check, context }, async (operation) => {
      const { target, pin } = operation;
      const page = { recursive, cursor, ...(limit === undefined ? {} : { limit }) };
      const asked = { path: target.path, ...page, ...(pin ? { pin } : {}) };
      const answer = await target.handle.files.list(asked, callOptions(operation.context));
      const source = await operation.judged(answer.source);
      const entries = await passing(target, answer.entries);
      const problems = await passing(target, answer.problems);
      return { ...answer, entries, problems, source };
    });
  };
}

/** What of a listing policy lets be seen: the rest is as if it were not there. */
async function passing<T extends { readonly path: string }>(
  target: Target,
  items: readonly T[],
): Promise<T[]> {
  const passed: T[] = [];
  for (const item of items) if (!(await target.denial(item.path))) passed.push(item);
  return passed;
}

function remove(options: FilesFaceOptions): MethodImplementation<Methods["remove"]> {
  return (request, context) => {
    const { recursive, ifMatch, ifKind, ifLinkTarget } = request;
    const kind = recursive ? "remove_tree" : "remove";
    const terms = ifMatch === "" ? {} : { ifMatch };
    return perform(
      options,
      {
        ...place(request),
        verb: "remove",
        kind,
        check: () => checkDigest(ifMatch, "ifMatch"),
        terms,
        context,
      },
      async (operation) => {
        const { target, pin } = operation;
        const asked = { path: target.path, recursive, ifMatch, ifKind, ifLinkTarget };
        const pinned = { ...asked, ...(pin ? { pin } : {}) };
        const answer = await target.handle.files.remove(pinned, callOptions(operation.context));
        return { ...answer, source: operation.made(answer.source) };
      },
    );
  };
}

function move(options: FilesFaceOptions): MethodImplementation<Methods["move"]> {
  return (request, context) => {
    const { workspace, from, to } = request;
    const asked = { workspace, path: from, to, field: "from", verb: "move", kind: "move", context } as const;
    return perform(options, asked, async (operation) => {
      const { target, pin, toPin } = operation;
      const paths = { from: target.path, to: operation.to?.path ?? to };
      const answer = await target.handle.files.move(
        { ...paths, ...(pin ? { fromPin: pin } : {}), ...(toPin ? { toPin } : {}) },
        callOptions(operation.context),
      );
      return { ...answer, source: operation.made(answer.source) };
    });
  };
}

function makeFolder(options: FilesFaceOptions): MethodImplementation<Methods["makeFolder"]> {
  return (request, context) => {
    const { parents } = request;
    const asked = { ...place(request), verb: "mkdir", kind: "mkdir", terms: { parents }, context } as const;
    return perform(options, asked, async (operation) => {
      const { target, pin } = operation;
      const answer = await target.handle.files.makeFolder(
        { path: target.path, parents, ...(pin ? { pin } : {}) },
        callOptions(operation.context),
      );
      return { ...answer, source: operation.made(answer.source) };
    });
  };
}

/** What was kept of a write is a matter of that write, which is asked about when it goes on. */
function findPart(options: FilesFaceOptions): MethodImplementation<Methods["findPart"]> {
  return (request, context) => {
    const { partKey } = request;
    const asked = { ...place(request), verb: "write", kind: "find_part", isHelp: true, context } as const;
    return perform(options, asked, async (operation) => {
      const { target } = operation;
      const named = { path: target.path, partKey };
      const answer = await target.handle.files.findPart(named, callOptions(operation.context));
      return { ...answer, source: await operation.judged(answer.source) };
    });
  };
}

function dropPart(options: FilesFaceOptions): MethodImplementation<Methods["dropPart"]> {
  return (request, context) => {
    const { partKey } = request;
    const asked = { ...place(request), verb: "write", kind: "drop_part", isHelp: true, context } as const;
    return perform(options, asked, async (operation) => {
      const { target } = operation;
      const named = { path: target.path, partKey };
      const answer = await target.handle.files.dropPart(named, callOptions(operation.context));
      return { ...answer, source: operation.made(answer.source) };
    });
  };
}

function place({ workspace, path }: { readonly workspace: string; readonly path: string }): {
  readonly workspace: string;
  readonly path: string;
} {
  return { workspace, path };
}
