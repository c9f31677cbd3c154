import { create } from "@bufbuild/protobuf";
import { createDigester, isDigest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import {
  EntryKind,
  EntrySchema,
  type Files,
  SourceSchema,
  WritePrecondition,
  type Entry as WireEntry,
  type FilesWriteRequest,
  type FilesWriteTreeRequest,
  type Source,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import type { Entry, Precondition, RootHandle } from "../../../shared/root/root-handle.ts";
import { toWireFault } from "../../../shared/rpc/fault-wire.ts";
import type {
  CallContext,
  MethodImplementation,
  ServiceImplementation,
} from "../../../shared/rpc/service.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";

type Methods = (typeof Files)["method"];

/** A node's files in one process with the test: a folder, exported under one name, without any policy. */
export function createFolderFiles(root: RootHandle, workspace = "app"): ServiceImplementation<typeof Files> {
  const sourceOf = (path: string, canonicalPath = path): Source =>
    create(SourceSchema, { workspace, requestedPath: path, canonicalPath });
  return {
    listExports: async () => ({
      exports: [
        { workspace, writable: true, containment: root.containment, state: "available", leaseEpoch: 1n },
      ],
    }),
    stat: async ({ path }) => {
      const entry = await root.stat(parseWorkspacePath(path));
      return { entry: toWire(entry), source: sourceOf(path, entry.canonicalPath) };
    },
    list: async ({ path, limit, cursor }) => {
      const after = cursor === "" ? {} : { after: cursor };
      const page = await root.list(parseWorkspacePath(path), { limit: limit || 1000, ...after });
      return {
        entries: page.entries.map((entry) => toWire(entry)),
        problems: page.problems.map(({ path: at, fault }) => ({ path: at, fault: toWireFault(fault) })),
        nextCursor: page.next ?? "",
        source: sourceOf(path, page.canonicalPath),
      };
    },
    read: readOf(root, sourceOf),
    write: writeOf(root, sourceOf),
    remove: async ({ path, recursive, ifMatch }) => {
      const removed = await root.remove(parseWorkspacePath(path), {
        recursive,
        ...(isDigest(ifMatch) ? { ifMatch } : {}),
      });
      return { removed: BigInt(removed), source: sourceOf(path) };
    },
    move: async ({ from, to }) => {
      await root.move(parseWorkspacePath(from), parseWorkspacePath(to));
      return { source: sourceOf(to) };
    },
    makeFolder: async ({ path, parents }) => {
      const entry = await root.makeFolder(parseWorkspacePath(path), { parents });
      return { entry: toWire(entry), source: sourceOf(path) };
    },
    readTree: async function* ({ path, strict }, { signal }) {
      yield { source: sourceOf(path) };
      yield* packTree({ root, path: parseWorkspacePath(path), strict, signal });
    },
    writeTree: async (requests, { signal }) => await writeTree(root, requests, { signal, sourceOf }),
  };
}

type SourceOf = (path: string, canonicalPath?: string) => Source;

function readOf(root: RootHandle, sourceOf: SourceOf): MethodImplementation<Methods["read"]> {
  return async function* ({ path, offset, length }) {
    await using file = await root.openFile(parseWorkspacePath(path));
    const source = sourceOf(path, file.canonicalPath);
    yield { part: { case: "header", value: { entry: toWire(file.entry), source } } };
    const digester = createDigester();
    let left = length === 0n ? Number.POSITIVE_INFINITY : Number(length);
    while (left > 0) {
      const buffer = Buffer.allocUnsafeSlow(Math.min(256 * 1024, left));
      const count = await file.read(buffer, Number(offset) + digester.sizeBytes);
      if (count === 0) break;
      left -= count;
      digester.update(buffer.subarray(0, count));
      yield { part: { case: "chunk", value: buffer.subarray(0, count) } };
    }
    const trailer = { sizeBytes: BigInt(digester.sizeBytes), digest: digester.digest() };
    yield { part: { case: "trailer", value: trailer } };
  };
}

function writeOf(root: RootHandle, sourceOf: SourceOf): MethodImplementation<Methods["write"]> {
  return async (requests: AsyncIterable<FilesWriteRequest>) => {
    const iterator = requests[Symbol.asyncIterator]();
    const first = await iterator.next();
    if (first.done === true || first.value.part.case !== "header")
      throw new Fault("INVALID_ARGUMENT", "no header");
    const header = first.value.part.value;
    await using stage = await root.stageWrite(parseWorkspacePath(header.path), {
      ...(header.mode === 0 ? {} : { mode: header.mode }),
      ...(header.modifiedNs === 0n ? {} : { mtimeNs: header.modifiedNs }),
    });
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      const { part } = next.value;
      if (part.case === "chunk") await stage.write(part.value);
      if (part.case !== "trailer") continue;
      const { digest, sizeBytes } = part.value;
      const receipt = await stage.commit({
        precondition: toPrecondition(header.precondition, header.ifMatch),
        expected: { sizeBytes: Number(sizeBytes), ...(isDigest(digest) ? { digest } : {}) },
      });
      return {
        entry: toWire(receipt.entry, receipt.digest),
        source: sourceOf(header.path, receipt.canonicalPath),
        publication: receipt.publication,
      };
    }
    throw new Fault("INTEGRITY_FAILURE", "the file was cut off");
  };
}

function toPrecondition(precondition: WritePrecondition, ifMatch: string): Precondition {
  if (precondition === WritePrecondition.ANY) return { kind: "any" };
  if (precondition === WritePrecondition.ABSENT) return { kind: "absent" };
  if (precondition === WritePrecondition.MATCH && isDigest(ifMatch))
    return { kind: "match", digest: ifMatch };
  throw new Fault("INVALID_ARGUMENT", "no precondition", { details: { field: "precondition" } });
}

interface TreeContext extends Pick<CallContext, "signal"> {
  readonly sourceOf: SourceOf;
}

async function writeTree(
  root: RootHandle,
  requests: AsyncIterable<FilesWriteTreeRequest>,
  { signal, sourceOf }: TreeContext,
): ReturnType<MethodImplementation<Methods["writeTree"]>> {
  const iterator = requests[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true || !first.value.header) throw new Fault("INVALID_ARGUMENT", "no header");
  const { path, precondition, strict } = first.value.header;
  const parts = { [Symbol.asyncIterator]: () => iterator };
  const { stored, problems } = await storeTree(parts, {
    root,
    path: parseWorkspacePath(path),
    precondition: precondition === WritePrecondition.ANY ? "any" : "absent",
    strict,
    signal,
  });
  const wired = problems.map(({ path: at, fault }) => ({ path: at, fault: toWireFault(fault) }));
  return { stored, problems: wired, source: sourceOf(path) };
}

const kinds = {
  file: EntryKind.FILE,
  folder: EntryKind.FOLDER,
  link: EntryKind.LINK,
  other: EntryKind.OTHER,
} as const;

function toWire(entry: Entry, digest = ""): WireEntry {
  return create(EntrySchema, {
    path: entry.path,
    kind: kinds[entry.kind],
    sizeBytes: BigInt(entry.sizeBytes),
    mode: entry.mode,
    modifiedNs: entry.mtimeNs,
    linkTarget: entry.linkTarget ?? "",
    digest,
  });
}
