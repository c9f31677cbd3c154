import type { MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import {
  type Files,
  type FilesWriteResponse,
  WritePrecondition,
  type WriteHeaderSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CallOptions, Client } from "../../shared/rpc/service.ts";

/** What is written, and where: a header with its content. */
export interface Written extends Omit<MessageInitShape<typeof WriteHeaderSchema>, "$typeName" | "$unknown"> {
  readonly workspace: string;
  readonly path: string;
  readonly content: string;
}

/** A write that is under way. */
export interface BegunWrite {
  /** Rejects as the write does; a rejection that nobody waits for is no error. */
  readonly answer: Promise<FilesWriteResponse>;
  /** Sends the last of it. */
  readonly finish: () => void;
}

/**
 * Begins a write and sends all but its end. Once its staged file is there, the node has answered every question before it,
 * and what is sent and answered from then on is the write alone.
 */
export function beginWrite(
  client: Pick<Client<typeof Files>, "write">,
  { content, ...more }: Written,
  options?: CallOptions,
): BegunWrite {
  const bytes = Buffer.from(content);
  const sizeBytes = BigInt(bytes.byteLength);
  const gate = Promise.withResolvers<void>();
  const messages = async function* () {
    const header = { precondition: WritePrecondition.ANY, sizeBytes, ...more };
    yield { part: { case: "header" as const, value: header } };
    yield { part: { case: "chunk" as const, value: bytes } };
    await gate.promise;
    yield { part: { case: "trailer" as const, value: { sizeBytes, digest: digestOf(bytes) } } };
  };
  const answer = client.write(messages(), options);
  answer.catch(() => undefined);
  return { answer, finish: () => gate.resolve() };
}

/** Writes a file in one piece, whatever stands there unless the header says otherwise. */
export async function writeWhole(
  client: Pick<Client<typeof Files>, "write">,
  { content, ...more }: Written,
): Promise<FilesWriteResponse> {
  const bytes = Buffer.from(content);
  const sizeBytes = BigInt(bytes.byteLength);
  const header = { precondition: WritePrecondition.ANY, sizeBytes, ...more };
  return await client.write(
    (async function* () {
      yield { part: { case: "header" as const, value: header } };
      yield { part: { case: "chunk" as const, value: bytes } };
      const trailer = { sizeBytes: header.sizeBytes, digest: digestOf(bytes) };
      yield { part: { case: "trailer" as const, value: trailer } };
    })(),
  );
}
