import { linkSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  EntryKind,
  FilesReadTreeResponseSchema,
  WritePrecondition,
  type FilesReadTreeResponse,
  type FilesWriteTreeRequest,
  type FilesWriteTreeResponse,
  type TreeEntry,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { rootPath } from "../../../shared/names/workspace-path.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import { requireEntries } from "../../../shared/tree/tree-rules.ts";
import { treeMessages as writeMessages } from "../../scenarios/files-node/service.ts";
import { errorOf } from "../../scenarios/files/pair.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { openTempRoot } from "../../unit/root/temp-root.ts";
import { callContext } from "../../unit/workspace/temp-exports.ts";
import {
  startHostilePair,
  treeEntry,
  treeMessages,
  type HostileFiles,
  type HostilePair,
} from "./hostile-pair.ts";

const patience = { timeout: 120_000 };
const workspace = "devbox:/app";
const maxEntries = 40;
/** More than a peer can have on its way before it is cut off: what a call and the gateway hold at most. */
const heldBytes = 32 * 1024 * 1024;
let pair: HostilePair;

beforeAll(async () => {
  pair = await startHostilePair(maxEntries);
}, 120_000);

afterEach(() => pair.answer({}));

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

const badNames = ["../x", "/x", "a/../../x", "C:x", ".", "", "nul\0x"];
const link = { kind: EntryKind.LINK, sizeBytes: 0n, digest: "" };
/** A folder, a link to it and an entry below that link; a link out and an entry below that one. */
const linked: readonly TreeEntry[] = [
  treeEntry("folder", { kind: EntryKind.FOLDER, sizeBytes: 0n, digest: "", mode: 0o755 }),
  treeEntry("in", { ...link, linkTarget: "folder" }),
  treeEntry("in/x"),
  treeEntry("out", { ...link, linkTarget: "../../outside" }),
  treeEntry("out/x"),
];
const hostile = [...badNames.map((name) => treeEntry(name)), ...linked, treeEntry("fine")];
const refused = [
  ...badNames.map((name) => [name, "PATH_INVALID"]),
  ["in/x", "SYMLINK_REFUSED"],
  ["out", "PATH_ESCAPES"],
  ["out/x", "SYMLINK_REFUSED"],
];

function sorted(found: readonly (readonly (string | undefined)[])[]): unknown[] {
  return found.map((one) => one.join(" ")).toSorted();
}

async function getHostile(): Promise<void> {
  await using here = await makeTempFolder();
  mkdirSync(here.join("in"));
  pair.answer({
    readTree: async function* () {
      yield* treeMessages([...hostile, treeEntry("copy", { copyFrom: "../../outside/secret" })]);
    },
  });
  const got = await pair.files(["get", workspace, here.join("in/got"), "--json"]);
  const { failed } = got.json as { failed: { path: string; code: string }[] };
  expect(sorted(failed.map(({ path, code }) => [path, code]))).toEqual(
    sorted([...refused, ["copy", "HARDLINK_REFUSED"]]),
  );
  expect(got.exitCode).toBe(7);
  expect(await here.entries()).toEqual(["in", "in/got", "in/got/fine", "in/got/folder", "in/got/in"]);

  // An archive is not looked into once more by everybody who unpacks it.
  const tar = here.join("in/got.tar");
  for (const [entries, code] of [
    [linked.slice(0, 3), "SYMLINK_REFUSED"],
    [linked.slice(3, 4), "PATH_ESCAPES"],
  ] as const) {
    pair.answer({
      readTree: async function* () {
        yield* treeMessages(entries);
      },
    });
    expect(errorOf(await pair.files(["get", workspace, tar, "--json"])).code).toBe(code);
  }
  pair.answer({
    manifest: async function* () {
      const entry = { path: "../x", kind: EntryKind.FILE, sizeBytes: 1n, mode: 0o644 };
      const source = { workspace: "app", requestedPath: "", canonicalPath: "" };
      yield { source, digest: "d", folderIdentity: "i", entries: [entry], trailer: { files: 1n } };
    },
  });
  expect(errorOf(await pair.files(["sync", workspace, here.join("in/synced"), "--json"])).code).toBe(
    "PATH_INVALID",
  );
  expect((await here.entries()).filter((path) => !path.startsWith("in/got"))).toEqual(["in"]);
  expect(await here.entries()).not.toContain("in/got.tar");
}

async function getHardLink(): Promise<void> {
  await using here = await makeTempFolder();
  mkdirSync(join(pair.temp.dir, "sent"));
  linkSync(join(pair.temp.outside, "secret"), join(pair.temp.dir, "sent/hard"));
  pair.answer({});
  const got = await pair.files(["get", `${workspace}/sent`, here.join("got"), "--json"]);
  expect([got.exitCode, got.json]).toMatchObject([
    7,
    { failed: [{ path: "hard", code: "HARDLINK_REFUSED" }] },
  ]);
  expect(await here.entries()).toEqual(["got"]);
}

function toWrite(
  name: string,
  entries: readonly TreeEntry[],
  at = workspace,
): AsyncGenerator<FilesWriteTreeRequest, void> {
  const messages = writeMessages(name, treeMessages(entries), WritePrecondition.ANY);
  return (async function* () {
    for await (const message of messages) {
      if (message.header) message.header.workspace = at;
      yield message;
    }
  })();
}

async function putHostile(
  name: string,
  write: (entries: readonly TreeEntry[]) => Promise<FilesWriteTreeResponse>,
): Promise<void> {
  const target = join(pair.temp.dir, name);
  mkdirSync(target);
  linkSync(join(pair.temp.outside, "secret"), join(target, "hard"));
  const before = readdirSync(pair.temp.dir).toSorted();
  const { problems } = await write([
    ...hostile,
    treeEntry("hard"),
    treeEntry("second", { copyFrom: "hard" }),
    treeEntry("third", { copyFrom: "../../outside/secret" }),
  ]);
  expect(sorted(problems.map(({ path, fault }) => [path, fault && fromWireFault(fault).code]))).toEqual(
    sorted([
      ...refused,
      ["hard", "HARDLINK_REFUSED"],
      ["second", "HARDLINK_REFUSED"],
      ["third", "PATH_INVALID"],
    ]),
  );
  expect(readdirSync(pair.temp.dir).toSorted()).toEqual(before);
  expect(readdirSync(target, { recursive: true }).map(String).toSorted()).toEqual([
    "fine",
    "folder",
    "hard",
    "in",
  ]);
  expect(readdirSync(pair.temp.outside)).toEqual(["secret"]);
  expect(readFileSync(join(pair.temp.outside, "secret"), "utf8")).toBe("OUTSIDE");
}

proves(
  "files.hostile-tree",
  "a tree from an enemy makes nothing outside its target, whichever side the enemy is on",
  patience,
  async () => {
    await getHostile();
    await getHardLink();
    await putHostile("by-gateway", (entries) => pair.client.writeTree(toWrite("by-gateway", entries)));
    await putHostile("at-node", async (entries) => {
      const answer = await pair.temp.files.writeTree(toWrite("at-node", entries, "app"), callContext());
      return answer as FilesWriteTreeResponse;
    });
  },
);

/** Chunks without end; `sent` counts their bytes, and `ended` resolves when nobody asks for more. */
function endless(): {
  readonly sent: () => number;
  readonly ended: Promise<void>;
  chunks(): Generator<Buffer>;
} {
  let bytes = 0;
  const over = Promise.withResolvers<void>();
  return {
    sent: () => bytes,
    ended: over.promise,
    *chunks() {
      try {
        for (;;) {
          bytes += 64 * 1024;
          yield Buffer.alloc(64 * 1024, "x");
        }
      } finally {
        over.resolve();
      }
    },
  };
}

const huge = 2n ** 62n;

/** A file without an end that is announced as so large, alone and as all of a tree. */
function floodFromNode(sizeBytes: bigint, flood: ReturnType<typeof endless>): HostileFiles {
  const entry = { path: "file", kind: EntryKind.FILE, sizeBytes, mode: 0o644 };
  const source = { workspace: "app", requestedPath: "file", canonicalPath: "file" };
  return {
    read: async function* () {
      yield { part: { case: "header", value: { entry, source } } };
      for (const value of flood.chunks()) yield { part: { case: "chunk", value } };
    },
    readTree: async function* () {
      const entries = [{ entry, streamed: true }];
      yield create(FilesReadTreeResponseSchema, { entries, source: { ...source, canonicalPath: "" } });
      for (const content of flood.chunks()) yield create(FilesReadTreeResponseSchema, { content });
    },
    stat: async ({ path }) => {
      const kind = path === "file" ? EntryKind.FILE : EntryKind.FOLDER;
      return { entry: { ...entry, path, kind }, source: { ...source, canonicalPath: path } };
    },
  };
}

function floodFile(sizeBytes: bigint, flood: ReturnType<typeof endless>): Promise<unknown> {
  const header = { workspace, path: "flooded/file", precondition: WritePrecondition.ANY, sizeBytes };
  const messages = async function* () {
    yield { part: { case: "header" as const, value: header } };
    for (const value of flood.chunks()) yield { part: { case: "chunk" as const, value } };
  };
  return pair.client.write(messages());
}

function floodTree(sizeBytes: bigint, flood: ReturnType<typeof endless>): Promise<unknown> {
  const header = { workspace, path: "flooded/tree", precondition: WritePrecondition.ANY };
  const entry = { path: "file", kind: EntryKind.FILE, sizeBytes, mode: 0o644 };
  const messages = async function* () {
    yield { header, entries: [{ entry, streamed: true }] };
    for (const content of flood.chunks()) yield { content };
  };
  return pair.client.writeTree(messages());
}

/** Folders without end. */
function* endlessEntries(): Generator<TreeEntry> {
  for (let index = 0; ; index += 1)
    yield treeEntry(`f${index}`, { kind: EntryKind.FOLDER, sizeBytes: 0n, digest: "", mode: 0o755 });
}

async function expectCutOff(flood: ReturnType<typeof endless>): Promise<void> {
  await flood.ended;
  expect(flood.sent()).toBeLessThan(heldBytes);
}

const sizes = [
  [huge, "TOO_LARGE"],
  [1_000n, "INTEGRITY_FAILURE"],
] as const;

proves(
  "files.hostile-sizes",
  "who announces what cannot be, or sends more than that, is cut off before it costs disk or memory",
  patience,
  async () => {
    await using here = await makeTempFolder();
    for (const [sizeBytes, code] of sizes) {
      for (const path of ["/file", ""]) {
        const flood = endless();
        pair.answer(floodFromNode(sizeBytes, flood));
        const got = await pair.files(["get", `${workspace}${path}`, here.join("got"), "--json"]);
        expect([path, errorOf(got).code]).toEqual([path, code]);
        await expectCutOff(flood);
        expect(await here.entries()).toEqual([]);
      }
      pair.answer({});
      for (const flooding of [floodFile, floodTree]) {
        const flood = endless();
        expect(await faultOf(flooding(sizeBytes, flood))).toMatchObject({ code });
        await expectCutOff(flood);
        const left = readdirSync(pair.temp.dir, { recursive: true }).map(String);
        expect(left.filter((name) => /file$|\.fairlead/.test(name))).toEqual([]);
      }
    }

    // More entries than the limit: towards the node, and towards this machine.
    const header = { workspace, path: "many", precondition: WritePrecondition.ANY };
    const tooMany = pair.client.writeTree(
      (async function* () {
        yield { header };
        for (const one of endlessEntries()) yield { entries: [one] };
      })(),
    );
    const details = { limit: maxEntries, actual: maxEntries + 1 };
    expect(await faultOf(tooMany)).toMatchObject({ code: "LIMIT_REACHED", details });
    expect(readdirSync(join(pair.temp.dir, "many"))).toHaveLength(maxEntries);
    await using local = await openTempRoot();
    for (const parts of [entriesOneByOne(), problemsOneByOne()]) {
      const storing = storeTree(parts, { root: local.root, path: rootPath, precondition: "any", maxEntries });
      expect(await faultOf(storing)).toMatchObject({ code: "LIMIT_REACHED", details });
      expect(readdirSync(local.dir)).toHaveLength(maxEntries);
    }
  },
);

async function* entriesOneByOne(): AsyncGenerator<FilesReadTreeResponse, void> {
  for (const one of endlessEntries()) yield create(FilesReadTreeResponseSchema, { entries: [one] });
}

async function* problemsOneByOne(): AsyncGenerator<FilesReadTreeResponse, void> {
  for (;;) yield create(FilesReadTreeResponseSchema, { problems: [{ path: "bad" }] });
}

test("a tree has a million entries where no other limit was set", () => {
  requireEntries(1_000_000, {});
  expect(() => requireEntries(1_000_001, {})).toThrow("more than 1000000 entries");
});
