import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import {
  EntryKind,
  FilesListRequestSchema,
  FilesMakeFolderRequestSchema,
  FilesMoveRequestSchema,
  FilesReadRequestSchema,
  FilesRemoveRequestSchema,
  FilesStatRequestSchema,
  FilesListExportsRequestSchema,
  WritePrecondition,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { callContext, exportOf, openTempExports } from "../../unit/workspace/temp-exports.ts";
import { read, readTree, write, writeMessages } from "./service.ts";

const workspace = "app";

describe("exports, stat and list", () => {
  test("say what is exported and what stands where", async () => {
    await using temp = await openTempExports((dir) => {
      mkdirSync(join(dir, "sub"));
      writeFileSync(join(dir, "sub/file"), "12345", { mode: 0o640 });
      utimesSync(join(dir, "sub/file"), 1_700_000_000, 1_700_000_000);
    });
    const { exports } = await temp.files.listExports(create(FilesListExportsRequestSchema), callContext());
    expect(exports).toMatchObject([
      { workspace, writable: true, containment: "kernel", state: "available", leaseEpoch: 1n },
    ]);
    const { entry, source } = await temp.files.stat(
      create(FilesStatRequestSchema, { workspace, path: "sub/file" }),
      callContext(),
    );
    expect(entry).toMatchObject({
      path: "sub/file",
      kind: EntryKind.FILE,
      sizeBytes: 5n,
      mode: 0o640,
      modifiedNs: 1_700_000_000_000_000_000n,
    });
    expect(source).toMatchObject({ workspace, requestedPath: "sub/file", canonicalPath: "sub/file" });
    expect(
      await faultOf(
        temp.files.stat(create(FilesStatRequestSchema, { workspace: "none", path: "" }), callContext()),
      ),
    ).toMatchObject({
      code: "NOT_FOUND",
    });
    expect(
      await faultOf(
        temp.files.stat(create(FilesStatRequestSchema, { workspace, path: "../x" }), callContext()),
      ),
    ).toMatchObject({
      code: "PATH_INVALID",
    });
  });

  test("give pages in the order of bytes that miss nothing, of a folder and of a tree", async () => {
    await using temp = await openTempExports((dir) => {
      for (let folder = 0; folder < 5; folder += 1) {
        mkdirSync(join(dir, `d${folder}`));
        for (let file = 0; file < 50; file += 1) writeFileSync(join(dir, `d${folder}/f${file}`), "");
      }
      for (let file = 0; file < 120; file += 1) writeFileSync(join(dir, `file${file}`), "");
      writeFileSync(Buffer.concat([Buffer.from(`${dir}/e`), Buffer.from([0xff])]), "");
    });
    const listAll = async (recursive: boolean): Promise<string[]> => {
      const paths: string[] = [];
      let cursor = "";
      do {
        const request = create(FilesListRequestSchema, { workspace, path: "", recursive, limit: 33, cursor });
        const page = await temp.files.list(request, callContext());
        const found = [...(page.entries ?? []), ...(page.problems ?? [])].map(({ path }) => path ?? "");
        expect(found.length).toBeLessThanOrEqual(33);
        paths.push(...found);
        cursor = page.nextCursor ?? "";
      } while (cursor !== "");
      return paths;
    };
    const flat = await listAll(false);
    expect(flat).toHaveLength(126);
    expect(new Set(flat).size).toBe(126);
    expect(flat).toContain("e\\xff");
    const tree = await listAll(true);
    expect(tree).toHaveLength(376);
    expect(tree.filter((path) => path !== "e\\xff")).toEqual(
      tree
        .filter((path) => path !== "e\\xff")
        .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    );
  });

  test("refuse a page that is too large and a cursor that was altered", async () => {
    await using temp = await openTempExports();
    for (const wrong of [{ limit: 10_001 }, { cursor: "abc" }]) {
      const request = create(FilesListRequestSchema, { workspace, ...wrong });
      expect(await faultOf(temp.files.list(request, callContext()))).toMatchObject({
        code: "INVALID_ARGUMENT",
        details: { field: Object.keys(wrong)[0] },
      });
    }
  });
});

describe("reading", () => {
  test.each([0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])(
    "gives a file of %d bytes with its digest",
    async (size) => {
      const content = Buffer.alloc(size, "abcdefg");
      await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), content));
      const result = await read(temp.files, "file");
      expect(result.content.equals(content)).toBe(true);
      expect(result).toMatchObject({
        digest: digestOf(content),
        sizeBytes: BigInt(size),
        canonicalPath: "file",
      });
    },
  );

  test("gives a range, fewer bytes at the end and none past it", async () => {
    const content = Buffer.from(Array.from({ length: 700_000 }, (_, index) => index % 251));
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), content));
    for (const [offset, length] of [
      [0, 10],
      [5, 0],
      [300_000, 300_000],
      [699_999, 100],
      [700_000, 10],
      [900_000, 0],
    ] as const) {
      const result = await read(temp.files, "file", { offset: BigInt(offset), length: BigInt(length) });
      const expected = content.subarray(offset, length === 0 ? undefined : offset + length);
      expect(result.content.equals(expected), `${offset} ${length}`).toBe(true);
      expect(result.digest).toBe(digestOf(expected));
    }
  });

  test("holds to the digest that was asked for, and to what can be a size", async () => {
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), "content"));
    expect((await read(temp.files, "file", { ifMatch: digestOf("content") })).content.toString()).toBe(
      "content",
    );
    expect(await faultOf(read(temp.files, "file", { ifMatch: digestOf("other") }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await faultOf(read(temp.files, "file", { ifMatch: "sha256:x" }))).toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "ifMatch" },
    });
    expect(await faultOf(read(temp.files, "file", { offset: 2n ** 63n }))).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("of a file that changes meanwhile fails and reports nothing as complete", async () => {
    await using temp = await openTempExports((dir) =>
      writeFileSync(join(dir, "file"), Buffer.alloc(1_000_000)),
    );
    let chunks = 0;
    const reading = (async () => {
      for await (const { part } of temp.files.read(
        create(FilesReadRequestSchema, { workspace, path: "file" }),
        callContext(),
      )) {
        if (part?.case === "chunk" && ++chunks === 2) appendFileSync(join(temp.dir, "file"), "more");
      }
    })();
    expect(await faultOf(reading)).toMatchObject({ code: "INTEGRITY_FAILURE" });
  });

  test("ends when the export ends or its permission is taken back, and when the caller leaves", async () => {
    await using temp = await openTempExports((dir) =>
      writeFileSync(join(dir, "file"), Buffer.alloc(2_000_000)),
    );
    const cut = async (change: () => Promise<void> | void, context = callContext()): Promise<unknown> => {
      let chunks = 0;
      const work = (async () => {
        for await (const { part } of temp.files.read(
          create(FilesReadRequestSchema, { workspace, path: "file" }),
          context,
        )) {
          if (part?.case === "chunk" && ++chunks === 2) await change();
        }
      })();
      const error: unknown = await work.then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(chunks).toBeLessThanOrEqual(3);
      return error;
    };
    expect(await cut(() => temp.exports.apply([exportOf(temp.dir, { deny: ["file"] })]))).toMatchObject({
      code: "POLICY_DENIED",
    });
    await temp.exports.apply([exportOf(temp.dir)]);
    const caller = new AbortController();
    expect(await cut(() => caller.abort(new Error("left")), callContext(caller.signal))).toMatchObject({
      message: "left",
    });
    expect(await cut(() => temp.exports.apply([]))).toMatchObject({ code: "WORKSPACE_ACCESS_UNAVAILABLE" });
  });

  test("over the machine's limit is refused, exactly at it is not", async () => {
    await using temp = await openTempExports(
      (dir) => {
        writeFileSync(join(dir, "fits"), Buffer.alloc(1000));
        writeFileSync(join(dir, "over"), Buffer.alloc(1001));
      },
      { settings: { maxFileBytes: 1000 } },
    );
    expect((await read(temp.files, "fits")).sizeBytes).toBe(1000n);
    const tooLarge = { code: "TOO_LARGE", details: { limit: 1000, actual: 1001 } };
    expect(await faultOf(read(temp.files, "over"))).toMatchObject(tooLarge);
    await write(temp.files, "new", Buffer.alloc(1000));
    expect(await faultOf(write(temp.files, "new2", Buffer.alloc(1001)))).toMatchObject(tooLarge);
    const problems = (await readTree(temp.files, "")).flatMap((message) => message.problems);
    expect(problems.map(({ path }) => path)).toEqual(["over"]);
    expect(readdirSync(temp.dir).toSorted()).toEqual(["fits", "new", "over"]);
  });
});

describe("writing", () => {
  test.each([0, 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])(
    "stores %d bytes with mode and time",
    async (size) => {
      const content = Buffer.alloc(size, "abcdefg");
      await using temp = await openTempExports();
      const answer = await write(temp.files, "a/b/file", content, {
        header: {
          mode: 0o755,
          modifiedNs: 1_600_000_000_123_456_000n,
          precondition: WritePrecondition.ABSENT,
        },
      });
      expect(answer).toMatchObject({
        publication: "committed",
        entry: { path: "a/b/file", sizeBytes: BigInt(size), digest: digestOf(content), mode: 0o755 },
        source: { canonicalPath: "a/b/file" },
      });
      const stats = statSync(join(temp.dir, "a/b/file"), { bigint: true });
      expect(stats.mtimeNs / 1000n).toBe(1_600_000_000_123_456n);
      expect(readFileSync(join(temp.dir, "a/b/file")).equals(content)).toBe(true);
    },
  );

  test("of a body that is shorter, longer or other than announced leaves the target as it was", async () => {
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), "old"));
    const before = statSync(join(temp.dir, "file"));
    const damages = [
      { header: { sizeBytes: 3n } },
      { header: { sizeBytes: 9n } },
      { trailer: "none" },
      { trailer: { digest: digestOf("other") } },
      { trailer: { sizeBytes: 1n } },
    ] as const;
    for (const damage of damages) {
      expect(await faultOf(write(temp.files, "file", "new content", damage))).toMatchObject({
        code: "INTEGRITY_FAILURE",
      });
    }
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("old");
    expect(statSync(join(temp.dir, "file"))).toMatchObject({ ino: before.ino, mtimeMs: before.mtimeMs });
    expect(readdirSync(temp.dir)).toEqual(["file"]);
  });

  test("holds to its condition", async () => {
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), "old"));
    expect(
      await faultOf(write(temp.files, "file", "x", { header: { precondition: WritePrecondition.ABSENT } })),
    ).toMatchObject({
      code: "ALREADY_EXISTS",
    });
    const match = (ifMatch: string) => ({ header: { precondition: WritePrecondition.MATCH, ifMatch } });
    expect(await faultOf(write(temp.files, "file", "x", match(digestOf("other"))))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await write(temp.files, "file", "new", match(digestOf("old")))).toMatchObject({
      replacedDigest: digestOf("old"),
    });
    for (const header of [
      { precondition: WritePrecondition.UNSPECIFIED },
      { precondition: WritePrecondition.MATCH, ifMatch: "" },
    ]) {
      expect(await faultOf(write(temp.files, "file", "x", { header }))).toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    }
    expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("new");
  });

  test("announced larger than any file is refused before anything is stored", async () => {
    await using temp = await openTempExports();
    expect(await faultOf(write(temp.files, "file", "x", { header: { sizeBytes: 2n ** 62n } }))).toMatchObject(
      { code: "TOO_LARGE", details: { limit: Number.MAX_SAFE_INTEGER, actual: 2 ** 62 } },
    );
    expect(await faultOf(write(temp.files, "file", "x", { header: { sizeBytes: 2n ** 52n } }))).toMatchObject(
      { code: "DISK_FULL" },
    );
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  test("that is cancelled, or whose export ends, leaves nothing", async () => {
    await using temp = await openTempExports((dir) => writeFileSync(join(dir, "file"), "old"));
    const caller = new AbortController();
    const content = Buffer.alloc(1_000_000);
    const cutAfter = async function* (cut: () => Promise<void> | void) {
      let count = 0;
      for await (const message of writeMessages("a/new", content)) {
        if (++count === 3) await cut();
        yield message;
      }
    };
    const cancelled = temp.files.write(
      cutAfter(() => caller.abort(new Error("left"))),
      callContext(caller.signal),
    );
    await expect(cancelled).rejects.toThrow("left");
    expect(readdirSync(temp.dir)).toEqual(["file"]);
    const ended = temp.files.write(
      cutAfter(() => temp.exports.apply([])),
      callContext(),
    );
    expect(await faultOf(ended)).toMatchObject({ code: "WORKSPACE_ACCESS_UNAVAILABLE" });
    expect(readdirSync(temp.dir)).toEqual(["file"]);
  });
});

describe("removing, moving and making folders", () => {
  test("do what they say and name their source", async () => {
    await using temp = await openTempExports((dir) => {
      mkdirSync(join(dir, "full"));
      writeFileSync(join(dir, "full/x"), "x");
      writeFileSync(join(dir, "file"), "content");
    });
    const made = await temp.files.makeFolder(
      create(FilesMakeFolderRequestSchema, { workspace, path: "a/b", parents: true }),
      callContext(),
    );
    expect(made).toMatchObject({
      entry: { path: "a/b", kind: EntryKind.FOLDER },
      source: { canonicalPath: "a/b" },
    });
    const moved = await temp.files.move(
      create(FilesMoveRequestSchema, { workspace, from: "file", to: "a/b/file" }),
      callContext(),
    );
    expect(moved).toMatchObject({ source: { requestedPath: "a/b/file" } });
    const remove = (path: string, more: object = {}) =>
      temp.files.remove(create(FilesRemoveRequestSchema, { workspace, path, ...more }), callContext());
    expect(await faultOf(remove("full"))).toMatchObject({ code: "NOT_EMPTY" });
    expect(await remove("full", { recursive: true })).toMatchObject({ removed: 2n });
    expect(await faultOf(remove("a/b/file", { ifMatch: digestOf("other") }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await remove("a/b/file", { ifMatch: digestOf("content") })).toMatchObject({ removed: 1n });
    expect(readdirSync(temp.dir)).toEqual(["a"]);
  });
});
