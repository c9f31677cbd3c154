import { create } from "@bufbuild/protobuf";
import { type ChunkList, type ChunkSource, cutChunks, type KnownChunks } from "../content/chunks.ts";
import { digestOf, type Digester } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import {
  type ChunkList as WireList,
  ChunkListSchema,
  type FileCopy,
  FileCopySchema,
} from "../gen/fairlead/v1/files_pb.ts";
import type { OpenFile, StagedFile } from "../root/root-handle.ts";
import { createChunkPool } from "../rpc/chunk-memory.ts";
import { chunkBytes } from "./tree-part.ts";

/** A part of a file that the receiver makes out of what it holds. */
export type DeltaPart =
  | {
      readonly kind: "bytes";
      /** To be sent; the memory is used again once they were. */
      readonly bytes: Uint8Array;
    }
  | (CopiedBytes & { readonly kind: "copy" });

/** Bytes that the receiver has. */
export interface CopiedBytes {
  /** Where they stand in the file that it holds. */
  readonly offset: number;
  readonly sizeBytes: number;
}

/** One copy is at most so long, in bytes: the receiver begins with it while the rest is compared. */
const maxCopyBytes = 64 * 1024 * 1024;

/** What `diffFile` takes. */
export interface DiffOptions {
  /** What the receiver holds. */
  readonly known: KnownChunks;
  /** Digests the whole file; begins behind the bytes that it has seen. */
  readonly digester: Digester;
  readonly signal: AbortSignal;
}

/** A file as what the receiver has of it already and what it has not. */
export async function* diffFile(
  file: ChunkSource,
  { known, digester, signal }: DiffOptions,
): AsyncGenerator<DeltaPart, void> {
  const { averageBits } = known;
  const pool = createChunkPool(chunkBytes);
  let copy: CopiedBytes | undefined;
  let fresh = { buffer: pool.take(), count: 0 };
  for await (const { bytes } of cutChunks(file, { averageBits, offset: digester.sizeBytes, signal })) {
    digester.update(bytes);
    const { byteLength } = bytes;
    const found = known.find(digestOf(bytes));
    const isKnown = found?.sizeBytes === byteLength;
    if (isKnown && fresh.count > 0) {
      yield { kind: "bytes", bytes: pool.lend(fresh.buffer, fresh.count) };
      fresh = { buffer: pool.take(), count: 0 };
    }
    if (copy && isKnown && goesOn(copy, found.offset, byteLength)) {
      copy = { offset: copy.offset, sizeBytes: copy.sizeBytes + byteLength };
      continue;
    }
    if (copy) yield { kind: "copy", ...copy };
    copy = isKnown ? found : undefined;
    for (let at = isKnown ? byteLength : 0; at < byteLength;) {
      const room = fresh.buffer.subarray(fresh.count);
      const piece = bytes.subarray(at, at + room.byteLength);
      room.set(piece);
      fresh.count += piece.byteLength;
      at += piece.byteLength;
      if (fresh.count < chunkBytes) continue;
      yield { kind: "bytes", bytes: pool.lend(fresh.buffer, fresh.count) };
      fresh = { buffer: pool.take(), count: 0 };
    }
  }
  if (copy) yield { kind: "copy", ...copy };
  if (fresh.count > 0) yield { kind: "bytes", bytes: pool.lend(fresh.buffer, fresh.count) };
}

function goesOn(copy: CopiedBytes, offset: number, moreBytes: number): boolean {
  return copy.offset + copy.sizeBytes === offset && copy.sizeBytes + moreBytes <= maxCopyBytes;
}

/** So much is copied at once, in bytes. */
const copyBytes = 1024 * 1024;

/** The file that the receiver of a delta has: copies are taken from it. The caller closes it. */
export class DeltaBase {
  readonly #file: OpenFile;
  #buffer: Buffer | undefined;

  /** Of a file that was opened before its chunks were told. */
  constructor(file: OpenFile) {
    this.#file = file;
  }

  /** Puts some of its bytes behind what the stage has; `beforeEach` is called before each step, and may end it by a fault. */
  async copyTo(stage: StagedFile, { offset, sizeBytes }: CopiedBytes, beforeEach: () => void): Promise<void> {
    this.#buffer ??= Buffer.allocUnsafeSlow(copyBytes);
    for (let done = 0; done < sizeBytes;) {
      beforeEach();
      const room = this.#buffer.subarray(0, Math.min(copyBytes, sizeBytes - done));
      const count = await this.#file.read(room, offset + done);
      if (count < room.byteLength) throw this.#changed();
      await stage.write(room);
      done += count;
    }
  }

  /** `CONFLICT` with `details.reason` = `base_changed` when it was changed since it was opened. */
  requireUnchanged(): void {
    if (this.#file.hasChanged()) throw this.#changed();
  }

  #changed(): Fault {
    const { path } = this.#file.entry;
    return new Fault("CONFLICT", `${path} was changed while parts of it were used`, {
      details: { path, reason: "base_changed", publication: "unattempted" },
      hint: "repeat the command",
    });
  }
}

/** Whether a fault says that what was to be copied is not there any more: sent whole, the file needs none of it. */
export function isBaseChanged(error: unknown): boolean {
  return isFault(error, "CONFLICT") && error.details["reason"] === "base_changed";
}

/** A copy as it travels. */
export function toWireCopy({ offset, sizeBytes }: CopiedBytes): FileCopy {
  return create(FileCopySchema, { offset: BigInt(offset), sizeBytes: BigInt(sizeBytes) });
}

/** A copy from the wire; one that no file can have is `INVALID_ARGUMENT` with `details.field`. */
export function fromWireCopy({ offset, sizeBytes }: FileCopy): CopiedBytes {
  if (sizeBytes === 0n || offset + sizeBytes > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new Fault("INVALID_ARGUMENT", `no file has ${sizeBytes} bytes to be copied from ${offset} on`, {
      details: { field: "copy" },
    });
  }
  return { offset: Number(offset), sizeBytes: Number(sizeBytes) };
}

/** The chunks of a file as they travel. */
export function toWireList({ averageBits, sizes, digests }: ChunkList): WireList {
  return create(ChunkListSchema, { averageBits, sizes: [...sizes], digests });
}
