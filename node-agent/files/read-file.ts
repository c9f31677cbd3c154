import type { MessageInitShape } from "@bufbuild/protobuf";
import { toByteCount } from "../../shared/content/byte-count.ts";
import { knowChunks, type KnownChunks } from "../../shared/content/chunks.ts";
import { createDigester, parseDigest, type Digest, type Digester } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { FilesReadRequest, FilesReadResponseSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { changedWhileRead } from "../../shared/root/refusals.ts";
import type { OpenFile } from "../../shared/root/root-handle.ts";
import { createChunkPool } from "../../shared/rpc/chunk-memory.ts";
import { diffFile, toWireCopy } from "../../shared/tree/delta.ts";
import { type BytesPart, packParts } from "../../shared/tree/packed-parts.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toPins, toWireEntry, toWireSource } from "./wire.ts";

type Response = MessageInitShape<typeof FilesReadResponseSchema>;

/** One chunk on the wire. */
const chunkBytes = 256 * 1024;

/** `Files.Read`: header, chunks, trailer. The file that was opened is the one that is sent. */
export async function* readFile(
  workspace: Workspace,
  request: FilesReadRequest,
  signal: AbortSignal,
): AsyncGenerator<Response, void> {
  const path = parseRequestPath(request.path);
  const range = {
    offset: toByteCount(request.offset, "offset"),
    length: toByteCount(request.length, "length"),
  };
  const ifMatch = request.ifMatch === "" ? undefined : parseDigest(request.ifMatch, "ifMatch");
  const resume = parseResume(request);
  const known = parseKnown(request);
  await using file = await workspace.root
    .pinned(toPins([path, request.pin]))
    .openFile(path, request.bootstrap ? { followFolders: true } : {});
  if (ifMatch !== undefined) await requireDigest(file, ifMatch, signal);
  const { canonicalPath } = file;
  const source = toWireSource({ workspace: workspace.settings.name, requestedPath: path, canonicalPath });
  const held = resume ? await digestHeld(file, resume, signal) : undefined;
  const resumedBytes = held?.sizeBytes ?? 0;
  const header = { entry: toWireEntry(file.entry), source, resumedBytes: BigInt(resumedBytes) };
  yield { part: { case: "header", value: header } };
  const digester = held ?? createDigester();
  const rest = held ? { offset: resumedBytes, length: 0 } : range;
  const parts = known
    ? newParts(file, { known, digester, signal })
    : allParts(file, { rest, digester, signal });
  for await (const part of request.acceptsPacked ? packParts(parts) : parts) {
    // The permission may have been taken back since the part before.
    workspace.root.recheck("read", canonicalPath);
    yield { part };
  }
  if (file.hasChanged()) throw changedWhileRead(path);
  const trailer = { sizeBytes: BigInt(digester.sizeBytes), digest: digester.digest() };
  yield { part: { case: "trailer", value: trailer } };
}

/** What the caller holds of the file's begin. */
interface Held {
  readonly sizeBytes: number;
  readonly digest: Digest;
}

function parseResume(request: FilesReadRequest): Held | undefined {
  if (request.resumeBytes === 0n) return undefined;
  if (request.offset !== 0n || request.length !== 0n) {
    throw new Fault("INVALID_ARGUMENT", "a read of a range cannot go on behind what is held", {
      details: { field: "resumeBytes" },
    });
  }
  return {
    sizeBytes: toByteCount(request.resumeBytes, "resumeBytes"),
    digest: parseDigest(request.resumeDigest, "resumeDigest"),
  };
}

/** The digest so far of a file that begins with what the caller holds; undefined where it begins otherwise. */
async function digestHeld(file: OpenFile, held: Held, signal: AbortSignal): Promise<Digester | undefined> {
  if (file.entry.sizeBytes < held.sizeBytes) return undefined;
  const digester = createDigester();
  const range = { offset: 0, length: held.sizeBytes };
  for await (const chunk of readChunks(file, range, signal)) digester.update(chunk);
  return digester.sizeBytes === held.sizeBytes && digester.digest() === held.digest ? digester : undefined;
}

function parseKnown({ knownChunks, offset, length }: FilesReadRequest): KnownChunks | undefined {
  if (!knownChunks) return undefined;
  if (offset !== 0n || length !== 0n) {
    throw new Fault("INVALID_ARGUMENT", "a read of a range is not compared with what is known", {
      details: { field: "knownChunks" },
    });
  }
  return knowChunks([knownChunks], "knownChunks");
}

/** What the caller has not, and where it finds the rest. */
async function* newParts(
  file: OpenFile,
  options: { readonly known: KnownChunks; readonly digester: Digester; readonly signal: AbortSignal },
): AsyncGenerator<BytesPart, void> {
  for await (const part of diffFile(file, options)) {
    if (part.kind === "bytes") yield { case: "chunk", value: part.bytes };
    else yield { case: "copy", value: toWireCopy(part) };
  }
}

async function* allParts(
  file: OpenFile,
  {
    rest,
    digester,
    signal,
  }: { readonly rest: Range; readonly digester: Digester; readonly signal: AbortSignal },
): AsyncGenerator<BytesPart, void> {
  for await (const chunk of readChunks(file, rest, signal)) {
    digester.update(chunk);
    yield { case: "chunk", value: chunk };
  }
}

interface Range {
  readonly offset: number;
  /** 0: to the end. */
  readonly length: number;
}

/** The bytes of a range; the next chunk is read while the one before is on its way. Sent chunks are used again. */
async function* readChunks(
  file: OpenFile,
  range: Range,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const end = range.length === 0 ? Infinity : range.offset + range.length;
  const isSmall = file.entry.sizeBytes <= chunkBytes;
  const pool = createChunkPool(isSmall ? file.entry.sizeBytes + 1 : chunkBytes);
  const read = async (position: number): Promise<Uint8Array> => {
    const buffer = pool.take();
    const room = buffer.subarray(0, Math.max(0, Math.min(buffer.byteLength, end - position)));
    const count = isSmall ? file.readNow(room, position) : await file.read(room, position);
    return pool.lend(buffer, count);
  };
  let position = range.offset;
  let next = read(position);
  try {
    for (;;) {
      const chunk = await next;
      signal.throwIfAborted();
      if (chunk.length === 0) return;
      position += chunk.length;
      // A short chunk is the last one: what is behind it came after the file was opened, and is seen as a change.
      const isLast = chunk.length < chunkBytes || position >= end;
      if (!isLast) {
        next = read(position);
        next.catch(() => undefined);
      }
      yield chunk;
      if (isLast) return;
    }
  } finally {
    await next.catch(() => undefined);
  }
}

async function requireDigest(file: OpenFile, expected: Digest, signal: AbortSignal): Promise<void> {
  const digester = createDigester();
  for await (const chunk of readChunks(file, { offset: 0, length: 0 }, signal)) digester.update(chunk);
  const actual = digester.digest();
  if (actual === expected) return;
  throw new Fault("CONFLICT", `${file.entry.path} was changed meanwhile`, {
    details: { path: file.entry.path, expected, actual },
    hint: "read the file again",
  });
}
