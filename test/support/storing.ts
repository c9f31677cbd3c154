import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import {
  EntryKind,
  EntrySchema,
  type FilesWriteTreeRequestSchema,
  type TreeExtentSchema,
  WritePrecondition,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { createTreeTally } from "../../shared/tree/tree-tally.ts";

type Message = MessageInitShape<typeof FilesWriteTreeRequestSchema>;

/** The messages that store a tree of folders and empty files in `devbox:/app`, with what is said of its size, if anything. */
export async function* storing(
  path: string,
  paths: readonly string[],
  extent?: MessageInitShape<typeof TreeExtentSchema>,
): AsyncGenerator<Message, void> {
  const tally = createTreeTally();
  const entries = paths.map((one) => {
    const kind = one.endsWith("/") ? EntryKind.FOLDER : EntryKind.FILE;
    const digest = kind === EntryKind.FILE ? digestOf("") : "";
    return create(EntrySchema, { path: one.replace(/\/$/, ""), kind, mode: 0o755, digest });
  });
  for (const entry of entries) tally.add(entry);
  const header = { workspace: "devbox:/app", path, precondition: WritePrecondition.ANY };
  yield { header: extent ? { ...header, extent } : header };
  yield { entries: entries.map((entry) => ({ entry })) };
  yield { treeTrailer: tally.trailer(0n) };
}
