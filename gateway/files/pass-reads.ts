import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { digestOf, isDigest } from "../../shared/content/digest.ts";
import { type Fault, isFault } from "../../shared/fault/fault.ts";
import {
  EntryProblemSchema,
  type EntryProblem,
  type FilesListChunksRequest,
  type FilesListChunksResponseSchema,
  type FilesReadRequest,
  type FilesReadResponseSchema,
  type FilesReadTreeRequest,
  type FilesReadTreeResponseSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { freeWhenSent } from "../../shared/rpc/chunk-memory.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import { parseEntryPath } from "../../shared/tree/tree-names.ts";
import { requireBootstrap } from "./bootstrap-documents.ts";
import { checkReading } from "./check-arguments.ts";
import type { FilesFaceOptions } from "./face.ts";
import { performStream, type Operation } from "./operation.ts";
import { streamOptions, measureRead, transferOptions, type Target } from "./target.ts";
import { createTreeFilter } from "./tree-filter.ts";

type ReadPart = MessageInitShape<typeof FilesReadResponseSchema>;

/** Passes a read on: nothing is sent before policy has seen the canonical path in the header. */
export function passRead(
  options: FilesFaceOptions,
  request: FilesReadRequest,
  context: CallContext,
): AsyncIterable<ReadPart> {
  const { workspace, path, offset, length, ifMatch, bootstrap } = request;
  const terms = {
    ...(bootstrap ? { bootstrap } : {}),
    ...(offset === 0n && length === 0n ? {} : { offset: Number(offset), length: Number(length) }),
    ...(ifMatch === "" ? {} : { ifMatch }),
  };
  const check = (at: WorkspacePath): void => {
    checkReading(request);
    if (bootstrap) requireBootstrap(options.bootstrap, "read", at);
  };
  const asked = { workspace, path, verb: "read", kind: "read", check, terms, context } as const;
  return performStream(options, { ...asked, isBootstrap: bootstrap }, (operation) =>
    readParts(options, request, operation),
  );
}

async function* readParts(
  options: FilesFaceOptions,
  request: FilesReadRequest,
  operation: Operation,
): AsyncIterable<ReadPart> {
  const { target, pin } = operation;
  const { offset, length, ifMatch, resumeBytes, resumeDigest, knownChunks, acceptsPacked } = request;
  const isWhole = offset === 0n && length === 0n;
  const parts = target.handle.files.read(
    {
      path: target.path,
      offset,
      length,
      ifMatch,
      resumeBytes,
      resumeDigest,
      acceptsPacked,
      bootstrap: request.bootstrap,
      ...(knownChunks ? { knownChunks } : {}),
      ...(pin ? { pin } : {}),
    },
    transferOptions(operation.context, await measureRead(target, request)),
  );
  for await (const message of parts) {
    const { part } = message;
    operation.context.signal.throwIfAborted();
    if (part.case === "header") {
      const source = await operation.judged(part.value.source);
      yield { part: { case: "header", value: { ...part.value, source } } };
    } else {
      if (part.case === "chunk") freeWhenSent(part.value);
      if (part.case === "trailer") {
        operation.tell(part.value);
        if (isWhole) await remember(options, target, part.value.digest);
      }
      yield message;
    }
  }
}

/** Passes the chunks of a file on: they tell of its content, so it is read. Nobody is asked for them, they are a help only. */
export function passChunks(
  options: FilesFaceOptions,
  { workspace, path }: FilesListChunksRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesListChunksResponseSchema>> {
  const { people: _, ...unasking } = options;
  const asked = { workspace, path, verb: "read", kind: "read", terms: { chunks: true }, context } as const;
  return performStream(unasking, asked, chunkLists);
}

async function* chunkLists(
  operation: Operation,
): AsyncIterable<MessageInitShape<typeof FilesListChunksResponseSchema>> {
  const { target, pin, context } = operation;
  const asked = { path: target.path, ...(pin ? { pin } : {}) };
  for await (const { source, chunks } of target.handle.files.listChunks(asked, streamOptions(context))) {
    context.signal.throwIfAborted();
    yield source ? { source: await operation.judged(source) } : chunks ? { chunks } : {};
  }
}

/** Keeps what the user knows of a file now. */
export async function remember(options: FilesFaceOptions, target: Target, digest: string): Promise<void> {
  if (!options.reads || !isDigest(digest)) return;
  const { node, handle, path, context } = target;
  await options.reads.remember({ nodeId: node.id, workspace: handle.workspace, path, context }, digest);
}

/** Passes a tree on, without what the gateway's policy denies: what no rule allows is a problem, what one denies is not there. */
export function passTree(
  options: FilesFaceOptions,
  request: FilesReadTreeRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesReadTreeResponseSchema>> {
  const { workspace, path, strict, exclude, only } = request;
  const terms = {
    strict,
    ...(exclude.length === 0 ? {} : { exclude }),
    ...(only.length === 0 ? {} : { only: digestOf(JSON.stringify(only)), files: only.length }),
  };
  const asked = { workspace, path, verb: "read", kind: "read_tree", terms, context } as const;
  return performStream(options, asked, (operation) => treeParts(request, operation));
}

async function* treeParts(
  { strict, exclude, only, acceptsPacked }: FilesReadTreeRequest,
  operation: Operation,
): AsyncIterable<MessageInitShape<typeof FilesReadTreeResponseSchema>> {
  const { target, pin } = operation;
  const denied: EntryProblem[] = [];
  let root = target.path as string;
  const filter = createTreeFilter({
    denial: (path) => flawOf(path) ?? target.denial(below(root, path)),
    isHidden: async (path) => !flawOf(path) && (await target.isHidden(below(root, path))),
    onDenied: (path, fault) => {
      if (strict) throw fault;
      denied.push(toProblem(path, fault));
    },
  });
  const parts = target.handle.files.readTree(
    { path: target.path, strict, exclude, only, acceptsPacked, ...(pin ? { pin } : {}) },
    { ...streamOptions(operation.context), bulk: true },
  );
  for await (const part of parts) {
    operation.context.signal.throwIfAborted();
    const passed = await filter.pass(part);
    freeWhenSent(passed.content);
    if (passed.treeTrailer) operation.tell(passed.treeTrailer);
    const problems = denied.length > 0 ? [...passed.problems, ...denied.splice(0)] : passed.problems;
    if (!part.source) {
      yield problems === passed.problems ? passed : { ...passed, problems };
      continue;
    }
    const source = await operation.judged(part.source);
    root = source.canonicalPath;
    yield { ...passed, problems, source };
  }
}

/** An entry of a tree that the gateway left out. */
export function toProblem(path: string, fault: Fault): EntryProblem {
  return create(EntryProblemSchema, { path, fault: toWireFault(fault) });
}

/** Why an entry's path is none: whoever sends a tree is not trusted with what stands in it. */
export function flawOf(path: string): Fault | undefined {
  try {
    parseEntryPath(path);
    return undefined;
  } catch (error) {
    if (isFault(error)) return error;
    throw error;
  }
}

/** A path of a tree as one of the workspace. */
export function below(root: string, path: string): string {
  if (root === "") return path;
  return path === "" ? root : `${root}/${path}`;
}
