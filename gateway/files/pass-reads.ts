import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { isDigest } from "../../shared/content/digest.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import {
  EntryProblemSchema,
  type EntryProblem,
  type FilesReadRequest,
  type FilesReadResponseSchema,
  type FilesReadTreeRequest,
  type FilesReadTreeResponseSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { freeWhenSent } from "../../shared/rpc/chunk-memory.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { FilesFaceOptions } from "./face.ts";
import { callOptions, findTarget, measureRead, toSource, transferOptions, type Target } from "./target.ts";
import { createTreeFilter } from "./tree-filter.ts";

/** Passes a read on: nothing is sent before policy has seen the canonical path in the header. */
export async function* passRead(
  options: FilesFaceOptions,
  request: FilesReadRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesReadResponseSchema>> {
  const target = await findTarget(options, { ...request, verb: "read" }, context);
  const { offset, length, ifMatch, resumeBytes, resumeDigest } = request;
  const isWhole = offset === 0n && length === 0n;
  const parts = target.handle.files.read(
    { path: target.path, offset, length, ifMatch, resumeBytes, resumeDigest },
    transferOptions(context, await measureRead(target, request)),
  );
  for await (const message of parts) {
    const { part } = message;
    if (part.case === "header") {
      const source = toSource(target, part.value.source);
      await target.judge(source.canonicalPath);
      yield { part: { case: "header", value: { ...part.value, source } } };
    } else {
      if (part.case === "chunk") freeWhenSent(part.value);
      if (part.case === "trailer" && isWhole) await remember(options, target, part.value.digest);
      yield message;
    }
  }
}

/** Keeps what the user knows of a file now. */
export async function remember(options: FilesFaceOptions, target: Target, digest: string): Promise<void> {
  if (!options.reads || !isDigest(digest)) return;
  const { node, handle, path, context } = target;
  await options.reads.remember({ nodeId: node.id, workspace: handle.workspace, path, context }, digest);
}

/** Passes a tree on, without the entries that the gateway's policy denies; each of those is a problem. */
export async function* passTree(
  options: FilesFaceOptions,
  request: FilesReadTreeRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesReadTreeResponseSchema>> {
  const target = await findTarget(options, { ...request, verb: "read" }, context);
  const { strict, exclude, only } = request;
  const denied: EntryProblem[] = [];
  let root = target.path as string;
  const filter = createTreeFilter({
    denial: (path) => target.denial(below(root, path)),
    onDenied: (path, fault) => {
      if (strict) throw fault;
      denied.push(toProblem(path, fault));
    },
  });
  const parts = target.handle.files.readTree(
    { path: target.path, strict, exclude, only },
    { ...callOptions(context), bulk: true },
  );
  for await (const part of parts) {
    const passed = await filter.pass(part);
    freeWhenSent(passed.content);
    const problems = denied.length > 0 ? [...passed.problems, ...denied.splice(0)] : passed.problems;
    if (!part.source) {
      yield problems === passed.problems ? passed : { ...passed, problems };
      continue;
    }
    const source = toSource(target, part.source);
    await target.judge(source.canonicalPath);
    root = source.canonicalPath;
    yield { ...passed, problems, source };
  }
}

/** An entry of a tree that the gateway left out. */
export function toProblem(path: string, fault: Fault): EntryProblem {
  return create(EntryProblemSchema, { path, fault: toWireFault(fault) });
}

/** A path of a tree as one of the workspace. */
export function below(root: string, path: string): string {
  if (root === "") return path;
  return path === "" ? root : `${root}/${path}`;
}
