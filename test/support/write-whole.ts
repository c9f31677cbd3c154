import type { MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import {
  type Files,
  type FilesWriteResponse,
  WritePrecondition,
  type WriteHeaderSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../shared/rpc/service.ts";

/** What is written, and where: a header with its content. */
export interface Written extends Omit<MessageInitShape<typeof WriteHeaderSchema>, "$typeName" | "$unknown"> {
  readonly workspace: string;
  readonly path: string;
  readonly content: string;
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
