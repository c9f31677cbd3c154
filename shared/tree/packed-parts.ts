import { create } from "@bufbuild/protobuf";
import { createPacker } from "../content/pack.ts";
import { type FileCopy, type PackedBytes, PackedBytesSchema } from "../gen/fairlead/v1/files_pb.ts";
import { findRelease } from "../rpc/chunk-memory.ts";

/** A part of a file that stands for some of its bytes, as it travels. */
export type BytesPart =
  | { readonly case: "chunk"; readonly value: Uint8Array }
  | { readonly case: "copy"; readonly value: FileCopy }
  | { readonly case: "packed"; readonly value: PackedBytes };

/** The parts with their chunks packed where that pays. The memory of a chunk that was packed is its pool's again. */
export async function* packParts(parts: AsyncIterable<BytesPart>): AsyncGenerator<BytesPart, void> {
  const packer = createPacker();
  for await (const part of parts) {
    const content = part.case === "chunk" ? await packer.pack(part.value) : undefined;
    if (part.case !== "chunk" || !content) {
      yield part;
      continue;
    }
    const sizeBytes = part.value.byteLength;
    findRelease(part.value)?.();
    yield { case: "packed", value: create(PackedBytesSchema, { content, sizeBytes }) };
  }
}
