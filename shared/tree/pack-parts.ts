import { createPacker, unpack } from "../content/pack.ts";
import { findRelease } from "../rpc/chunk-memory.ts";
import type { TreePart } from "./tree-part.ts";

/** A part whose content may travel packed. */
export type PackedPart<P extends TreePart> = P & { readonly packedBytes: number };

/** The parts of a tree with their contents packed where that pays. The memory of what was packed is its pool's again. */
export async function* packTreeParts<P extends TreePart>(
  parts: AsyncIterable<P>,
): AsyncGenerator<PackedPart<P>, void> {
  const packer = createPacker();
  for await (const part of parts) {
    const content = await packer.pack(part.content);
    if (content) findRelease(part.content)?.();
    yield content ? { ...part, content, packedBytes: part.content.byteLength } : { ...part, packedBytes: 0 };
  }
}

/** How many bytes the content of a part is, as it is or packed. */
export function contentBytes({ content, packedBytes = 0 }: TreePart): number {
  return packedBytes > 0 ? packedBytes : content.byteLength;
}

/** The content of a part as it was; `INTEGRITY_FAILURE` for one that is no packed content of that length. */
export async function contentOf({ content, packedBytes = 0 }: TreePart): Promise<Uint8Array> {
  return packedBytes > 0 ? await unpack(content, packedBytes) : content;
}
