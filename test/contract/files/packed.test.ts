import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { type Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { openTempRoot } from "../../unit/root/temp-root.ts";
import { get, put, workspace } from "./one-file.ts";

const mebi = 1024 * 1024;

/** Counts the bytes of content that cross, either way. */
function counted(client: Client<typeof Files>): {
  readonly client: Client<typeof Files>;
  readonly crossed: () => number;
} {
  let bytes = 0;
  const count = <P extends { readonly part?: unknown }>(message: P): P => {
    const part = message.part as {
      readonly case: string;
      readonly value: Uint8Array & { content: Uint8Array };
    };
    if (part.case === "chunk") bytes += part.value.byteLength;
    if (part.case === "packed") bytes += part.value.content.byteLength;
    return message;
  };
  return {
    client: {
      ...client,
      read: async function* (request, more) {
        for await (const message of client.read(request, more)) yield count(message);
      },
      write: (requests, more) =>
        client.write(
          (async function* () {
            for await (const message of requests) yield count(message);
          })(),
          more,
        ),
    },
    crossed: () => {
      const before = bytes;
      bytes = 0;
      return before;
    },
  };
}

test("what becomes smaller by it crosses packed, both ways, and all else as it is", async () => {
  await using kit = await openFilesKit();
  await using here = await openTempRoot();
  const { client, crossed } = counted(kit.client);
  const text = Buffer.alloc(3 * mebi, "a line that is there again and again\n");
  const noise = randomBytes(3 * mebi);
  for (const [content, most] of [
    [text, text.length / 10],
    [noise, noise.length],
    [Buffer.concat([text, noise]), noise.length + text.length / 10 + 256 * 1024],
  ] as const) {
    writeFileSync(join(here.dir, "file"), content);
    writeFileSync(join(kit.dir, "file"), "old");
    await put(client, here);
    expect(readFileSync(join(kit.dir, "file")).equals(content)).toBe(true);
    expect(crossed()).toBeLessThanOrEqual(most);
    writeFileSync(join(here.dir, "file"), "old");
    await get(client, here, content.length);
    expect(readFileSync(join(here.dir, "file")).equals(content)).toBe(true);
    expect(crossed()).toBeLessThanOrEqual(most);
  }
});

test("to and from a peer of before nothing crosses packed", async () => {
  await using kit = await openFilesKit();
  await using here = await openTempRoot();
  const { client, crossed } = counted(kit.client);
  const text = Buffer.alloc(2 * mebi, "a line that is there again and again\n");
  const older: Client<typeof Files> = {
    ...client,
    findPart: async (request, more) => ({ ...(await client.findPart(request, more)), acceptsPacked: false }),
    read: (request, more) => client.read({ ...request, acceptsPacked: false }, more),
  };
  writeFileSync(join(here.dir, "file"), text);
  await put(older, here);
  expect(crossed()).toBe(text.length);
  writeFileSync(join(here.dir, "file"), "old");
  await get(older, here, text.length);
  expect(crossed()).toBe(text.length);
  // And whoever did not ask for it, a tool for one, gets none.
  const parts = await Array.fromAsync(kit.client.read({ workspace, path: "file" }));
  expect(new Set(parts.map(({ part }) => part.case))).toEqual(new Set(["header", "chunk", "trailer"]));
});

test("a packed chunk that is not what it says changes nothing", async () => {
  await using kit = await openFilesKit({ fill: (dir) => writeFileSync(join(dir, "file"), "old") });
  const bomb = zstdCompressSync(Buffer.alloc(64 * mebi));
  for (const [content, sizeBytes] of [
    [bomb, mebi],
    [bomb, 64 * mebi],
    [Buffer.from("none"), 10],
  ] as const) {
    const announced = BigInt(64 * mebi);
    const writing = kit.client.write(
      (async function* () {
        const header = { workspace, path: "file", precondition: WritePrecondition.ANY, sizeBytes: announced };
        yield { part: { case: "header" as const, value: header } };
        yield { part: { case: "packed" as const, value: { content, sizeBytes } } };
        const trailer = { sizeBytes: announced, digest: digestOf("") };
        yield { part: { case: "trailer" as const, value: trailer } };
      })(),
    );
    expect((await faultOf(writing)).code).toBe("INTEGRITY_FAILURE");
    expect(readFileSync(join(kit.dir, "file"), "utf8")).toBe("old");
  }
});
