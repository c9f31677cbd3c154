import { create } from "@bufbuild/protobuf";
import { digestOf } from "../../../shared/content/digest.ts";
import {
  FilesReadRequestSchema,
  FilesReadTreeRequestSchema,
  FilesWriteRequestSchema,
  FilesWriteTreeRequestSchema,
  WritePrecondition,
  type FilesReadTreeResponse,
  type FilesWriteRequest,
  type FilesWriteTreeRequest,
  type WriteHeader,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { CallContext } from "../../../shared/rpc/service.ts";
import { callContext, type TempExports } from "../../unit/workspace/temp-exports.ts";

type Files = TempExports["files"];

/** What a read gave. */
export interface ReadResult {
  readonly path: string;
  readonly canonicalPath: string;
  readonly content: Buffer;
  readonly digest: string;
  readonly sizeBytes: bigint;
  readonly chunks: number;
}

/** Reads a file through the service. */
export async function read(
  files: Files,
  path: string,
  options: {
    readonly offset?: bigint;
    readonly length?: bigint;
    readonly ifMatch?: string;
    readonly context?: CallContext;
  } = {},
): Promise<ReadResult> {
  const { context = callContext(), ...range } = options;
  const chunks: Buffer[] = [];
  let [digest, canonicalPath, seen, sizeBytes] = ["", "", "", 0n];
  for await (const { part } of files.read(
    create(FilesReadRequestSchema, { workspace: "app", path, ...range }),
    context,
  )) {
    if (part?.case === "header") {
      canonicalPath = part.value.source?.canonicalPath ?? "";
      seen = part.value.entry?.path ?? "";
    } else if (part?.case === "chunk") chunks.push(Buffer.from(part.value));
    else if (part?.case === "trailer")
      [digest, sizeBytes] = [part.value.digest ?? "", part.value.sizeBytes ?? 0n];
  }
  return {
    path: seen,
    canonicalPath,
    content: Buffer.concat(chunks),
    digest,
    sizeBytes,
    chunks: chunks.length,
  };
}

/** What may be changed about a write. */
export interface WriteChanges {
  readonly header?: Partial<
    Pick<
      WriteHeader,
      "precondition" | "ifMatch" | "mode" | "modifiedNs" | "sizeBytes" | "refuseMissingParents"
    >
  >;
  readonly trailer?: { readonly sizeBytes?: bigint; readonly digest?: string } | "none";
  readonly chunkBytes?: number;
}

/** The messages of a write. */
export async function* writeMessages(
  path: string,
  content: Buffer,
  changes: WriteChanges = {},
): AsyncGenerator<FilesWriteRequest, void> {
  const header = {
    workspace: "app",
    path,
    precondition: WritePrecondition.ANY,
    sizeBytes: BigInt(content.length),
    ...changes.header,
  };
  yield create(FilesWriteRequestSchema, { part: { case: "header", value: header } });
  const step = changes.chunkBytes ?? 256 * 1024;
  for (let at = 0; at < content.length; at += step) {
    yield create(FilesWriteRequestSchema, {
      part: { case: "chunk", value: content.subarray(at, at + step) },
    });
  }
  if (changes.trailer === "none") return;
  const trailer = { sizeBytes: BigInt(content.length), digest: digestOf(content), ...changes.trailer };
  yield create(FilesWriteRequestSchema, { part: { case: "trailer", value: trailer } });
}

/** Writes a file through the service. */
export async function write(
  files: Files,
  ...[path, content, changes]: [path: string, content: Buffer | string, changes?: WriteChanges]
): ReturnType<Files["write"]> {
  return files.write(writeMessages(path, Buffer.from(content), changes), callContext());
}

/** A tree as the service sends it; the messages own their memory. */
export async function readTree(
  files: Files,
  path: string,
  options: { readonly strict?: boolean; readonly exclude?: string[] } = {},
): Promise<FilesReadTreeResponse[]> {
  const messages: FilesReadTreeResponse[] = [];
  const request = create(FilesReadTreeRequestSchema, { workspace: "app", path, ...options });
  for await (const message of files.readTree(request, callContext()))
    messages.push(message as FilesReadTreeResponse);
  return messages;
}

/** The messages that store a tree which was read. */
export async function* treeMessages(
  path: string,
  messages: readonly FilesReadTreeResponse[],
  precondition: WritePrecondition = WritePrecondition.ABSENT,
): AsyncGenerator<FilesWriteTreeRequest, void> {
  yield create(FilesWriteTreeRequestSchema, { header: { workspace: "app", path, precondition } });
  for (const { entries, fileTrailer, treeTrailer, content } of messages) {
    const message = create(FilesWriteTreeRequestSchema, { content });
    message.entries = entries;
    if (fileTrailer) message.fileTrailer = fileTrailer;
    if (treeTrailer) message.treeTrailer = treeTrailer;
    yield message;
  }
}
