import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TreeExtentSchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { pathNames, relativePath } from "../../../shared/names/workspace-path.ts";
import type { LocalPlace } from "./local-place.ts";

/** How large the tree at a place is, as far as limits ask: what is known before any of it is sent. Faults as `walk`. */
export async function measureTree(
  { root, path: top }: Pick<LocalPlace, "root" | "path">,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof TreeExtentSchema>> {
  let entries = 0n;
  let depth = 0;
  let pathBytes = 0;
  for await (const batch of root.walk(top, { signal })) {
    for (const item of batch) {
      // What cannot be read is not sent.
      if (item.kind === "problem") continue;
      const path = relativePath(item.entry.path, top);
      entries += 1n;
      depth = Math.max(depth, pathNames(path).length);
      pathBytes = Math.max(pathBytes, Buffer.byteLength(path));
    }
  }
  return { entries, depth, pathBytes: BigInt(pathBytes) };
}
