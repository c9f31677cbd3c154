import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createDigester, type Digester } from "../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import {
  FileTrailerSchema,
  type FilesWriteRequestSchema,
  type FilesWriteResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { OpenFile } from "../../../shared/root/root-handle.ts";
import { createChunkPool } from "../../../shared/rpc/chunk-memory.ts";
import { chunkBytes } from "../../../shared/tree/tree-part.ts";
import { toWireCondition, type Condition } from "./condition.ts";
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
}

type WriteMessage = MessageInitShape<typeof FilesWriteRequestSchema>;

/**
 * Stores a file on the node. What an earlier try left there is not sent again where the file still begins with it; the
 * digest is that of the whole. Cut off, it leaves what arrived; interrupted, nothing.
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
  const held = await digestHeld(transfer, job);
  try {
    return await send(transfer, job, held);
  } catch (error) {
    if (!isFault(error, "CONFLICT") || error.details["reason"] !== "part_changed") throw error;
    return await send(transfer, job, createDigester());
  }
}

/** The digest so far of what the node holds, where this file begins with it; one of nothing where it does not. */
async function digestHeld(
  transfer: Transfer,
  { workspace, path, file, partKey }: StoreJob,
): Promise<Digester> {
  const { heldBytes, digest } = await findPart(transfer, { workspace, path, partKey });
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
): Promise<{ readonly heldBytes: bigint; readonly digest: string }> {
  try {
    return await files.findPart(name, call);
  } catch (error) {
    // A node of before keeps none.
    if (isFault(error, "VERSION_UNSUPPORTED")) return { heldBytes: 0n, digest: "" };
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
async function send(transfer: Transfer, job: StoreJob, digester: Digester): Promise<FilesWriteResponse> {
  return await transfer.files.write(fileMessages(transfer, job, digester), transfer.call);
}

async function* fileMessages(
  { onBytes }: Transfer,
  job: StoreJob,
  digester: Digester,
): AsyncGenerator<WriteMessage, void> {
  const { file } = job;
  const { entry } = file;
  yield headerOf(job, digester);
  const pool = createChunkPool(chunkBytes);
  for (;;) {
    const buffer = pool.take();
    const count = await file.read(buffer, digester.sizeBytes);
    if (count === 0) break;
    const value = pool.lend(buffer, count);
    digester.update(value);
    yield { part: { case: "chunk", value } };
    onBytes(count);
  }
  if (file.hasChanged()) {
    throw new Fault("INTEGRITY_FAILURE", `${entry.path} was changed while it was sent`, {
      hint: "repeat the command",
    });
  }
  const sizeBytes = BigInt(digester.sizeBytes);
  const trailer = create(FileTrailerSchema, { sizeBytes, digest: digester.digest() });
  yield { part: { case: "trailer", value: trailer } };
}

function headerOf({ workspace, path, file, condition, partKey }: StoreJob, digester: Digester): WriteMessage {
  const { entry } = file;
  const isResumed = digester.sizeBytes > 0;
  const value = {
    workspace,
    path,
    ...toWireCondition(condition),
    mode: entry.mode & 0o777,
    modifiedNs: entry.mtimeNs,
    sizeBytes: BigInt(entry.sizeBytes),
    ...(entry.sizeBytes < resumableFromBytes ? {} : { partKey }),
    ...(isResumed ? { resumeBytes: BigInt(digester.sizeBytes), resumeDigest: digester.digest() } : {}),
  };
  return { part: { case: "header", value } };
}
