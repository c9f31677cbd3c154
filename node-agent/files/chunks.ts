import type { MessageInitShape } from "@bufbuild/protobuf";
import { chooseAverageBits, listChunks } from "../../shared/content/chunks.ts";
import type {
  FilesListChunksRequest,
  FilesListChunksResponseSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { toWireList } from "../../shared/tree/delta.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toPins, toWireSource } from "./wire.ts";

/** One message holds so many chunks: about 64 MiB of the file. */
const perList = 1024;

/** `Files.ListChunks`. */
export async function* readChunkLists(
  workspace: Workspace,
  request: FilesListChunksRequest,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof FilesListChunksResponseSchema>, void> {
  const path = parseRequestPath(request.path);
  await using file = await workspace.root.pinned(toPins([path, request.pin])).openFile(path);
  const { canonicalPath } = file;
  yield { source: toWireSource({ workspace: workspace.settings.name, requestedPath: path, canonicalPath }) };
  const averageBits = chooseAverageBits(file.entry.sizeBytes);
  if (averageBits === undefined) return;
  for await (const list of listChunks(file, { averageBits, perList, signal })) {
    // The permission may have been taken back since the message before.
    workspace.root.recheck("read", canonicalPath);
    yield { chunks: toWireList(list) };
  }
}
