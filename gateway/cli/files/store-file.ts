import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  chunkedFromBytes,
  type ChunkList,
  knowChunks,
  type KnownChunks,
  maxListedChunks,
} from "../../../shared/content/chunks.ts";
import { createDigester, type Digester } from "../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import {
  FileTrailerSchema,
  type FilesWriteRequestSchema,
  type FilesWriteResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { OpenFile } from "../../../shared/root/root-handle.ts";
import { createChunkPool } from "../../../shared/rpc/chunk-memory.ts";
import { diffFile, isBaseChanged, toWireCopy } from "../../../shared/tree/delta.ts";
import { type BytesPart, packParts } from "../../../shared/tree/packed-parts.ts";
import { chunkBytes } from "../../../shared/tree/tree-part.ts";
import { toWireCondition, type Condition } from "./condition.ts";
import { isLost } from "./go-on.ts";
import { resumableFromBytes } from "./part-key.ts";
import type { Transfer } from "./transfer.ts";

/** How long an interrupted command waits for its part to be taken away, in milliseconds. */
const dropWithinMs = 1_000;

/** One file that is stored. */
export interface StoreJob {
  readonly workspace: string;
  readonly path: string;
  readonly file: OpenFile;
  readonly condition: Condition;
  /** Under which a part of it is kept. */
  readonly partKey: string;
  /** Through the bootstrap view. */
  readonly bootstrap?: boolean;
}

/** With what of it the node has in the file that is replaced. */
interface SendJob extends StoreJob {
  readonly known?: KnownChunks | undefined;
  /** Whether it takes packed chunks. */
  readonly packs?: boolean;
}

type WriteMessage = MessageInitShape<typeof FilesWriteRequestSchema>;

/**
 * Stores a file on the node. What an earlier try left there is not sent again where the file still begins with it; the
 * digest is that of the whole. Of a large file that is replaced only the chunks travel that it has not. Cut off, it leaves what arrived; interrupted, nothing.
 */
export async function storeFile(transfer: Transfer, job: StoreJob): Promise<FilesWriteResponse> {
  const { workspace } = job;
  if (job.file.entry.sizeBytes < resumableFromBytes) {
    return await transfer.goOn(workspace, () => send(transfer, job, createDigester()));
  }
  try {
    return await transfer.goOn(workspace, () => sendRest(transfer, job));
  } catch (error) {
    // What was ended on purpose, or was changed meanwhile, nobody goes on with.
    if (transfer.isInterrupted() || isFault(error, "INTEGRITY_FAILURE")) await drop(transfer, job);
    throw error;
  }
}

async function sendRest(transfer: Transfer, job: StoreJob): Promise<FilesWriteResponse> {
  const { held, packs } = await findHeld(transfer, job);
  const known = await findKnown(transfer, job);
  try {
    return await send(transfer, { ...job, known, packs }, held);
  } catch (error) {
    const isPartChanged = isFault(error, "CONFLICT") && error.details["reason"] === "part_changed";
    if (!isPartChanged && !isBaseChanged(error)) throw error;
    return await send(transfer, { ...job, packs }, createDigester());
  }
}

/** The chunks of the file that is replaced; undefined where all is sent. */
async function findKnown(
  { files, call, signal, onReused }: Transfer,
  { workspace, path, file, condition }: StoreJob,
): Promise<KnownChunks | undefined> {
  if (condition.kind === "absent" || file.entry.sizeBytes < chunkedFromBytes) return undefined;
  const lists: ChunkList[] = [];
  let count = 0;
  try {
    for await (const { chunks } of files.listChunks({ workspace, path }, call)) {
      // Nothing moves yet, but the node is at work.
      onReused(0);
      count += chunks?.sizes.length ?? 0;
      if (count > maxListedChunks) return undefined;
      if (chunks) lists.push(chunks);
    }
    return lists.length === 0 ? undefined : knowChunks(lists, "chunks");
  } catch (error) {
    // Nothing stands there, it may not be read, or the node is of before.
    if (isFault(error) && !signal.aborted && !isLost(error)) return undefined;
    throw error;
  }
}

/** What the node holds of the file, and whether it takes packed chunks. */
async function findHeld(
  transfer: Transfer,
  job: StoreJob,
): Promise<{ readonly held: Digester; readonly packs: boolean }> {
  const { workspace, path, partKey } = job;
  const { acceptsPacked, ...part } = await findPart(transfer, { workspace, path, partKey });
  return { held: await digestHeld(transfer, job, part), packs: acceptsPacked };
}

/** The digest so far of what the node holds, where this file begins with it; one of nothing where it does not. */
async function digestHeld(
  transfer: Transfer,
  { file }: StoreJob,
  { heldBytes, digest }: { readonly heldBytes: bigint; readonly digest: string },
): Promise<Digester> {
  const digester = createDigester();
  if (heldBytes === 0n || heldBytes > BigInt(file.entry.sizeBytes)) return digester;
  const buffer = Buffer.allocUnsafe(chunkBytes);
  const wantedBytes = Number(heldBytes);
  while (digester.sizeBytes < wantedBytes) {
    transfer.signal.throwIfAborted();
    const room = buffer.subarray(0, Math.min(buffer.length, wantedBytes - digester.sizeBytes));
    const count = await file.read(room, digester.sizeBytes);
    if (count === 0) return createDigester();
    digester.update(room.subarray(0, count));
  }
  return digester.digest() === digest ? digester : createDigester();
}

interface PartName {
  readonly workspace: string;
  readonly path: string;
  readonly partKey: string;
}

async function findPart(
  { files, call }: Transfer,
  name: PartName,
): Promise<{ readonly heldBytes: bigint; readonly digest: string; readonly acceptsPacked: boolean }> {
  try {
    return await files.findPart(name, call);
  } catch (error) {
    // A node of before keeps none.
    if (isFault(error, "VERSION_UNSUPPORTED")) return { heldBytes: 0n, digest: "", acceptsPacked: false };
    throw error;
  }
}

/** Best effort: a node that cannot be reached now removes it when nobody has come back for a day. */
async function drop(transfer: Transfer, { workspace, path, partKey }: StoreJob): Promise<void> {
  try {
    await transfer.files.dropPart({ workspace, path, partKey }, { deadlineMs: dropWithinMs });
  } catch (error) {
    if (!isFault(error)) throw error;
  }
}

/** Sends what follows behind the bytes of `digester`. */
async function send(transfer: Transfer, job: SendJob, digester: Digester): Promise<FilesWriteResponse> {
  return await transfer.files.write(fileMessages(transfer, job, digester), transfer.call);
}

async function* fileMessages(
  transfer: Transfer,
  job: SendJob,
  digester: Digester,
): AsyncGenerator<WriteMessage, void> {
  const { file, known } = job;
  const { entry } = file;
  yield headerOf(job, digester);
  const parts = known
    ? newParts(transfer, { file, known, digester })
    : allParts(transfer, { file, digester });
  for await (const part of job.packs === true ? packParts(parts) : parts) yield { part };
  if (file.hasChanged()) {
    throw new Fault("INTEGRITY_FAILURE", `${entry.path} was changed while it was sent`, {
      hint: "repeat the command",
    });
  }
  const sizeBytes = BigInt(digester.sizeBytes);
  const trailer = create(FileTrailerSchema, { sizeBytes, digest: digester.digest() });
  yield { part: { case: "trailer", value: trailer } };
}

async function* allParts(
  { onBytes }: Transfer,
  { file, digester }: { readonly file: OpenFile; readonly digester: Digester },
): AsyncGenerator<BytesPart, void> {
  const pool = createChunkPool(chunkBytes);
  for (;;) {
    const buffer = pool.take();
    const count = await file.read(buffer, digester.sizeBytes);
    if (count === 0) return;
    const value = pool.lend(buffer, count);
    digester.update(value);
    yield { case: "chunk", value };
    onBytes(count);
  }
}

/** What the node has not, and where it finds the rest. */
async function* newParts(
  { onBytes, onReused, signal }: Transfer,
  { file, ...options }: { readonly file: OpenFile; readonly known: KnownChunks; readonly digester: Digester },
): AsyncGenerator<BytesPart, void> {
  for await (const part of diffFile(file, { ...options, signal })) {
    if (part.kind === "copy") {
      yield { case: "copy", value: toWireCopy(part) };
      onReused(part.sizeBytes);
      continue;
    }
    const { byteLength } = part.bytes;
    yield { case: "chunk", value: part.bytes };
    onBytes(byteLength);
  }
}

function headerOf(
  { workspace, path, file, condition, partKey, bootstrap = false }: StoreJob,
  digester: Digester,
): WriteMessage {
  const { entry } = file;
  const isResumed = digester.sizeBytes > 0;
  const value = {
    workspace,
    path,
    bootstrap,
    ...toWireCondition(condition),
    mode: entry.mode & 0o777,
    modifiedNs: entry.mtimeNs,
    sizeBytes: BigInt(entry.sizeBytes),
    ...(entry.sizeBytes < resumableFromBytes ? {} : { partKey }),
    ...(isResumed ? { resumeBytes: BigInt(digester.sizeBytes), resumeDigest: digester.digest() } : {}),
  };
  return { part: { case: "header", value } };
}
