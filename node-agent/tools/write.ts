import { create, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { WritePrecondition, FilesWriteRequestSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { findText, toResult, type RunTool, type ToolFiles } from "./tool-run.ts";

type WriteRequest = MessageShape<typeof FilesWriteRequestSchema>;
type WritePart = NonNullable<MessageInitShape<typeof FilesWriteRequestSchema>["part"]>;

/** `write`: a whole file, staged, compared with what was read before, renamed. */
export function createWrite(files: Pick<ToolFiles, "write">): RunTool {
  return async function* write(run) {
    const path = findText(run.arguments, "path") ?? "";
    const content = Buffer.from(findText(run.arguments, "content") ?? "", "utf8");
    const digest = digestOf(content);
    const condition = toCondition(findText(run.arguments, "ifMatch") ?? "any");
    const parts: readonly WritePart[] = [
      {
        case: "header",
        value: {
          workspace: run.workspace,
          leaseEpoch: run.leaseEpoch,
          ...(run.pin ? { pin: run.pin } : {}),
          path,
          ...condition,
          sizeBytes: BigInt(content.byteLength),
        },
      },
      ...toChunks(content),
      {
        case: "trailer",
        value: { sizeBytes: BigInt(content.byteLength), digest },
      },
    ];
    const answer = await files.write(toRequests(parts), run.context);
    const replacedDigest = answer.replacedDigest ?? "";
    yield toResult(`wrote ${content.byteLength} bytes to ${path} (${digest})`, {
      path,
      canonicalPath: answer.source?.canonicalPath ?? path,
      digest,
      sizeBytes: content.byteLength,
      publication: answer.publication ?? "committed",
      ...(replacedDigest === "" ? {} : { replacedDigest }),
    });
  };
}

function toCondition(ifMatch: string): {
  readonly precondition: WritePrecondition;
  readonly ifMatch: string;
} {
  if (ifMatch === "any") return { precondition: WritePrecondition.ANY, ifMatch: "" };
  if (ifMatch === "absent") return { precondition: WritePrecondition.ABSENT, ifMatch: "" };
  return { precondition: WritePrecondition.MATCH, ifMatch };
}

const chunkBytes = 256 * 1024;

function toChunks(content: Buffer): WritePart[] {
  const chunks: WritePart[] = [];
  for (let at = 0; at < content.byteLength; at += chunkBytes) {
    chunks.push({ case: "chunk", value: content.subarray(at, at + chunkBytes) });
  }
  return chunks;
}

async function* toRequests(parts: readonly WritePart[]): AsyncGenerator<WriteRequest> {
  for (const part of parts) yield create(FilesWriteRequestSchema, { part });
}
