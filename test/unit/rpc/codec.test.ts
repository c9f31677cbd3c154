import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  FilesReadResponseSchema,
  FilesReadTreeResponseSchema,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { NodeLinkServeRequestSchema } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { decodeMessage, encodeMessage } from "../../../shared/rpc/codec.ts";
import { bytesOf } from "../../../shared/rpc/encoded.ts";

test("a message with a bulk field reads the same as the library's own encoding", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000 }), fc.string(), (content, workspace) => {
      const tree = create(FilesReadTreeResponseSchema, { content, source: { workspace } });
      const own = new Uint8Array(bytesOf(encodeMessage(FilesReadTreeResponseSchema, tree)));
      expect(fromBinary(FilesReadTreeResponseSchema, own)).toEqual(
        fromBinary(FilesReadTreeResponseSchema, toBinary(FilesReadTreeResponseSchema, tree)),
      );
    }),
  );
});

test("a bulk field of a oneof is sent behind its head, empty or not, and never copied when it is read", () => {
  for (const size of [0, 1, 127, 128, 70_000]) {
    const chunk = Buffer.alloc(size, 7);
    const bytes = bytesOf(encodeMessage(FilesReadResponseSchema, { part: { case: "chunk", value: chunk } }));
    const { part } = decodeMessage(FilesReadResponseSchema, bytes);
    if (part.case !== "chunk") throw new Error("no chunk");
    expect(Buffer.from(part.value).equals(chunk)).toBe(true);
    if (size > 0) expect(part.value.buffer).toBe(bytes.buffer);
  }
});

test("4 MiB pass and one byte more is refused with its size", () => {
  const limit = 4 * 1024 * 1024;
  const overhead = 5;
  const frame = (size: number) =>
    encodeMessage(NodeLinkServeRequestSchema, { frame: { case: "message", value: new Uint8Array(size) } });
  expect(frame(limit - overhead).byteLength).toBe(limit);
  expect(() => frame(limit - overhead + 1)).toThrow(
    expect.objectContaining({ code: "TOO_LARGE", details: { limit, actual: limit + 1 } }),
  );
});

test("bytes that are no message are an invalid argument", () => {
  expect(() => decodeMessage(FilesReadResponseSchema, Buffer.from("ff", "hex"))).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});
