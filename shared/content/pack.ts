import { promisify } from "node:util";
import { constants, zstdCompress, zstdDecompress } from "node:zlib";
import { Fault } from "../fault/fault.ts";

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** The level of zstd: the lowest of the ordinary ones, where a stream is not slower than a disk. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 };

/** Smaller pieces are not worth it, in bytes. */
const packedFromBytes = 4 * 1024;
/** So much of a piece is tried first, in bytes. */
const sampleBytes = 16 * 1024;
/** It pays when no more than this part of the bytes is left. */
const paysUpTo = 0.8;
/** After a try that did not pay so many pieces go as they are: 8 MiB of full ones. */
const restPieces = 32;

/** Most bytes that one packed piece may become: whoever unpacks needs room for no more. */
export const maxPieceBytes: number = 1024 * 1024;

/** Packs the pieces of one content, as long as a sample shows that it pays. */
export interface Packer {
  /** The piece in fewer bytes; undefined where it is better sent as it is. */
  pack(piece: Uint8Array): Promise<Uint8Array | undefined>;
}

/** A packer that has seen nothing yet: its first piece is its sample. */
export function createPacker(): Packer {
  let rest = 0;
  let isPaying = false;
  const shrinks = (packed: Uint8Array, bytes: Uint8Array): boolean =>
    packed.byteLength <= bytes.byteLength * paysUpTo;
  return {
    pack: async (piece) => {
      if (piece.byteLength < packedFromBytes || piece.byteLength > maxPieceBytes) return undefined;
      if (rest > 0) {
        rest -= 1;
        return undefined;
      }
      if (!isPaying && piece.byteLength > sampleBytes) {
        const sample = piece.subarray(0, sampleBytes);
        isPaying = shrinks(await compress(sample, { params }), sample);
      } else isPaying = true;
      if (isPaying) {
        const packed = await compress(piece, { params });
        isPaying = shrinks(packed, piece);
        if (isPaying) return packed;
      }
      rest = restPieces;
      return undefined;
    },
  };
}

/** What a packed piece was; `INTEGRITY_FAILURE` for anything that is none, or is not `sizeBytes` long. */
export async function unpack(packed: Uint8Array, sizeBytes: number): Promise<Buffer> {
  if (sizeBytes < 1 || sizeBytes > maxPieceBytes) throw damaged(sizeBytes);
  let piece: Buffer;
  try {
    // Whatever it says of itself, it becomes no longer than was announced.
    piece = await decompress(packed, { maxOutputLength: sizeBytes });
  } catch (error) {
    throw damaged(sizeBytes, error);
  }
  if (piece.byteLength !== sizeBytes) throw damaged(sizeBytes);
  return piece;
}

function damaged(sizeBytes: number, cause?: unknown): Fault {
  return new Fault("INTEGRITY_FAILURE", `a packed piece of ${sizeBytes} bytes is none`, {
    hint: "repeat the command",
    details: { expected: sizeBytes, limit: maxPieceBytes },
    ...(cause === undefined ? {} : { cause }),
  });
}
