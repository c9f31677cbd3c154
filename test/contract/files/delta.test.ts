import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { type Files, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit, type FilesKit } from "../../support/files-kit.ts";
import { openTempRoot, type TempRoot } from "../../unit/root/temp-root.ts";
import { get, put, workspace } from "./one-file.ts";

const mebi = 1024 * 1024;

/** The same file on both sides, but for a byte that stands in front here. */
async function openBoth(
  base: Buffer,
  policy = "",
): Promise<
  {
    readonly kit: FilesKit;
    readonly here: TempRoot;
    readonly next: Buffer;
  } & AsyncDisposable
> {
  await using stack = new AsyncDisposableStack();
  const next = Buffer.concat([Buffer.from([1]), base]);
  const kit = stack.use(
    await openFilesKit({ fill: (dir) => writeFileSync(join(dir, "file"), base), policy }),
  );
  const here = stack.use(await openTempRoot((dir) => writeFileSync(join(dir, "file"), next)));
  const owned = stack.move();
  return { kit, here, next, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test("of a large file that is replaced only what changed travels, both ways", async () => {
  const base = randomBytes(8 * mebi);
  await using both = await openBoth(base);
  const { kit, here, next } = both;
  const stored = await put(kit.client, here);
  expect(readFileSync(join(kit.dir, "file")).equals(next)).toBe(true);
  expect(stored.movedBytes).toBeLessThan(mebi / 2);
  expect(stored.movedBytes + stored.reusedBytes).toBe(next.length);
  writeFileSync(join(here.dir, "file"), base);
  const fetched = await get(kit.client, here, next.length);
  expect(readFileSync(join(here.dir, "file")).equals(next)).toBe(true);
  expect(fetched.movedBytes).toBeLessThan(mebi / 2);
  expect(fetched.movedBytes + fetched.reusedBytes).toBe(next.length);
});

/** As a peer of before: it lists no chunks, and does not look at those that it is told. */
function older(files: Client<typeof Files>): Client<typeof Files> {
  return {
    ...files,
    // oxlint-disable-next-line require-yield
    listChunks: async function* () {
      throw new Fault("VERSION_UNSUPPORTED", "no such method");
    },
    read: (request, more) => {
      const known = { ...request };
      delete known.knownChunks;
      return files.read(known, more);
    },
  };
}

test("to and from a peer of before the whole file travels", async () => {
  const base = randomBytes(3 * mebi);
  await using both = await openBoth(base);
  const { kit, here, next } = both;
  const client = older(kit.client);
  const stored = await put(client, here);
  expect([stored.movedBytes, stored.reusedBytes]).toEqual([next.length, 0]);
  writeFileSync(join(here.dir, "file"), base);
  const fetched = await get(client, here, next.length);
  expect([fetched.movedBytes, fetched.reusedBytes]).toEqual([next.length, 0]);
  expect(readFileSync(join(here.dir, "file")).equals(next)).toBe(true);
});

test("a file that changes while parts of it are used is sent whole, and arrives as it was meant", async () => {
  const base = randomBytes(4 * mebi);
  await using both = await openBoth(base);
  const { kit, here, next } = both;
  const atNode = join(kit.dir, "file");
  let isFirst = true;
  const changing: Client<typeof Files> = {
    ...kit.client,
    write: (requests, more) =>
      kit.client.write(
        (async function* () {
          for await (const request of requests) {
            yield request;
            if (request.part?.case === "copy" && isFirst) appendFileSync(atNode, "more");
            if (request.part?.case === "copy") isFirst = false;
          }
        })(),
        more,
      ),
  };
  const stored = await put(changing, here);
  expect(stored.movedBytes).toBeGreaterThanOrEqual(next.length);
  expect(readFileSync(atNode).equals(next)).toBe(true);
  writeFileSync(join(here.dir, "file"), base);
  let hasChanged = false;
  const atHome: Client<typeof Files> = {
    ...kit.client,
    read: async function* (request, more) {
      for await (const answer of kit.client.read(request, more)) {
        yield answer;
        if (answer.part.case !== "copy" || hasChanged) continue;
        hasChanged = true;
        appendFileSync(join(here.dir, "file"), "more");
      }
    },
  };
  const fetched = await get(atHome, here, next.length);
  expect(fetched.movedBytes).toBeGreaterThanOrEqual(next.length);
  expect(readFileSync(join(here.dir, "file")).equals(next)).toBe(true);
});

test("whoever may only write a file learns nothing of what it holds", async () => {
  const base = randomBytes(3 * mebi);
  const writeOnly = "files:\n  write: { read: [other], write: ['**'] }\n";
  await using both = await openBoth(base, writeOnly);
  const { kit, here, next } = both;
  expect(
    await faultOf(async () => {
      for await (const _ of kit.client.listChunks({ workspace, path: "file" })) continue;
    }),
  ).toMatchObject({ code: "POLICY_DENIED", details: { side: "gateway" } });
  // A right guess of one byte, told by its digest, would be an answer.
  const guess = async function* (): AsyncGenerator<never, void> {
    const byte = base.subarray(0, 1);
    const header = { workspace, path: "file", precondition: WritePrecondition.ANY, sizeBytes: 1n };
    yield { part: { case: "header", value: header } } as never;
    yield { part: { case: "copy", value: { offset: 0n, sizeBytes: 1n } } } as never;
    yield { part: { case: "trailer", value: { sizeBytes: 1n, digest: digestOf(byte) } } } as never;
  };
  expect(await faultOf(kit.client.write(guess()))).toMatchObject({ code: "POLICY_DENIED" });
  expect(readFileSync(join(kit.dir, "file")).equals(base)).toBe(true);
  const stored = await put(kit.client, here);
  expect([stored.movedBytes, stored.reusedBytes]).toEqual([next.length, 0]);
});

test("a node's own rule that a file may be written and not read holds for copies as well", async () => {
  const base = randomBytes(3 * mebi);
  await using kit = await openFilesKit({
    fill: (dir) => writeFileSync(join(dir, "file"), base),
    settings: { read: ["other"] },
  });
  const copy = async function* (): AsyncGenerator<never, void> {
    const header = { workspace, path: "file", precondition: WritePrecondition.ANY, sizeBytes: 1n };
    yield { part: { case: "header", value: header } } as never;
    yield { part: { case: "copy", value: { offset: 0n, sizeBytes: 1n } } } as never;
  };
  expect(await faultOf(kit.client.write(copy()))).toMatchObject({
    code: "POLICY_DENIED",
    details: { side: "node" },
  });
  expect(readFileSync(join(kit.dir, "file")).equals(base)).toBe(true);
});

test("copies that lead nowhere, or past what was announced, change nothing", async () => {
  const base = randomBytes(3 * mebi);
  await using both = await openBoth(base);
  const { kit } = both;
  const write = (
    sizeBytes: bigint,
    copy: { readonly offset: bigint; readonly sizeBytes: bigint },
  ): Promise<Fault> =>
    faultOf(
      kit.client.write(
        (async function* () {
          const header = { workspace, path: "file", precondition: WritePrecondition.ANY, sizeBytes };
          yield { part: { case: "header" as const, value: header } };
          yield { part: { case: "copy" as const, value: copy } };
          const trailer = { sizeBytes, digest: digestOf("") };
          yield { part: { case: "trailer" as const, value: trailer } };
        })(),
      ),
    );
  const size = BigInt(base.length);
  expect((await write(10n, { offset: size - 5n, sizeBytes: 10n })).details).toMatchObject({
    reason: "base_changed",
  });
  expect((await write(10n, { offset: 0n, sizeBytes: 11n })).code).toBe("INTEGRITY_FAILURE");
  expect((await write(10n, { offset: 0n, sizeBytes: 2n ** 62n })).code).toBe("INTEGRITY_FAILURE");
  expect((await write(10n, { offset: 2n ** 62n, sizeBytes: 10n })).code).toBe("INVALID_ARGUMENT");
  expect((await write(10n, { offset: 0n, sizeBytes: 10n })).code).toBe("INTEGRITY_FAILURE");
  expect(readFileSync(join(kit.dir, "file")).equals(base)).toBe(true);
  expect(existsSync(join(kit.dir, ".fairlead"))).toBe(false);
});
