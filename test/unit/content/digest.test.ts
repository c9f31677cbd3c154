import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import {
  createDigester,
  digestFromBytes,
  digestOf,
  digestToBytes,
  isDigest,
  parseDigest,
} from "../../../shared/content/digest.ts";

test("a digest is that of the bytes, in one piece or in many", () => {
  const bytes = Buffer.from("some content");
  const expected = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const digester = createDigester();
  for (const byte of bytes) digester.update(Buffer.from([byte]));
  expect(digestOf(bytes)).toBe(expected);
  expect(digester.digest()).toBe(expected);
  expect(digester.sizeBytes).toBe(bytes.length);
  digester.update(bytes);
  expect(digester.digest()).not.toBe(expected);
});

test("a digest travels as 32 bytes", () => {
  const digest = digestOf("x");
  expect(digestFromBytes(digestToBytes(digest))).toBe(digest);
  expect(() => digestFromBytes(Buffer.alloc(31), "if_match")).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "if_match" } }),
  );
});

test.each([
  "",
  "sha256:",
  `sha256:${"a".repeat(63)}`,
  `sha256:${"A".repeat(64)}`,
  `sha1:${"a".repeat(64)}`,
  "a".repeat(64),
])("%j is no digest", (text) => {
  expect(isDigest(text)).toBe(false);
  expect(() => parseDigest(text, "ifMatch")).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "ifMatch" } }),
  );
});
