import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createFilesFace } from "../../../gateway/files/face.ts";
import type { FileQuestion } from "../../../gateway/files/file-question.ts";
import type { ReadMemory } from "../../../gateway/files/read-memory.ts";
import { createWorkspaceRegistry } from "../../../gateway/files/registry.ts";
import type { NodeRecord } from "../../../gateway/pairing/nodes.ts";
import { digestOf, type Digest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import {
  Files,
  WritePrecondition,
  type FilesReadResponse,
  type FilesWriteResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { openTempExports } from "../../unit/workspace/temp-exports.ts";
import { createDirectClient } from "./direct-client.ts";

const node: NodeRecord = {
  id: "n1",
  alias: "devbox",
  labels: {},
  profile: "work",
  note: "",
  keyDigest: "",
  pairedAt: 0,
  certificateExpiresAt: 0,
  issuerPin: "",
  revokedAt: undefined,
  hostName: "",
  platform: "linux",
};

interface Face extends AsyncDisposable {
  /** Of the node. */
  readonly dir: string;
  readonly client: Client<typeof Files>;
  readonly asked: FileQuestion[];
}

interface FaceOptions {
  /** Paths that the gateway's policy refuses. */
  readonly denied?: (question: FileQuestion) => boolean;
  readonly isOnline?: () => boolean;
}

/** A gateway's face before a folder of this machine, all in one process. */
async function makeFace(options: FaceOptions = {}): Promise<Face> {
  await using stack = new AsyncDisposableStack();
  const temp = stack.use(await openTempExports(() => undefined, { settings: { followSymlinks: true } }));
  const nodeFiles = createDirectClient(Files, temp.files);
  const links = {
    find: () => undefined,
    get: () => {
      throw new Fault("NODE_OFFLINE", "devbox is offline");
    },
    presence: () => ({
      nodeId: "n1",
      state: "online" as const,
      sinceMs: 0,
      reason: "linked",
      generation: 1,
      lastSeenMs: 0,
      address: "",
      hello: undefined,
    }),
  };
  const registry = createWorkspaceRegistry({ links, clock: systemClock });
  registry.register(
    { nodeId: "n1", workspace: "app", writable: true, containment: "kernel", leaseEpoch: 1n },
    () => (options.isOnline?.() === false ? links.get() : nodeFiles),
  );
  const asked: FileQuestion[] = [];
  const face = createFilesFace({
    registry,
    nodes: { resolve: async () => node, find: async () => node },
    decide: (question) => {
      asked.push(question);
      const decision = options.denied?.(question) === true ? "deny" : "allow";
      return { decision, rule: "test" };
    },
    actorOf: () => ({ agent: "coder", sessionId: undefined, tool: undefined }),
    clock: systemClock,
    reads: createReads(),
  });
  const owned = stack.move();
  return {
    dir: temp.dir,
    client: createDirectClient(Files, face),
    asked,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function createReads(): ReadMemory {
  const known = new Map<string, Digest>();
  return {
    find: async ({ path }) => known.get(path),
    remember: async ({ path }, digest) => void known.set(path, digest),
  };
}

const workspace = "devbox:/app";

function read(face: Face, path: string): Promise<FilesReadResponse[]> {
  return Array.fromAsync(face.client.read({ workspace, path }));
}

interface Written {
  readonly path: string;
  readonly content: string;
  /** Not said by default. */
  readonly precondition?: WritePrecondition;
}

function write(face: Face, { path, content, precondition }: Written): Promise<FilesWriteResponse> {
  const said = precondition ?? WritePrecondition.UNSPECIFIED;
  return writeWhole(face.client, { workspace, path, content, precondition: said });
}

test("a path that is none is refused before policy or node hear of it", async () => {
  await using face = await makeFace();
  for (const path of ["../x", "/x", "a/../b", "a//b", ".", "a\0b"]) {
    expect((await faultOf(face.client.stat({ workspace, path }))).code).toBe("PATH_INVALID");
    expect((await faultOf(read(face, path))).code).toBe("PATH_INVALID");
    expect((await faultOf(write(face, { path, content: "x" }))).code).toBe("PATH_INVALID");
  }
  expect((await faultOf(face.client.stat({ workspace: "devbox:/app/x", path: "y" }))).code).toBe(
    "INVALID_ARGUMENT",
  );
  expect(face.asked).toEqual([]);
});

test("policy is asked about the requested path, and again about the one that the node reports", async () => {
  await using face = await makeFace({ denied: ({ path }) => path.startsWith("closed") });
  await mkdir(join(face.dir, "closed"));
  await writeFile(join(face.dir, "closed/secret"), "secret");
  await symlink("closed", join(face.dir, "open"));
  for (const work of [
    () => read(face, "closed/secret"),
    () => read(face, "open/secret"),
    () => face.client.stat({ workspace, path: "open/secret" }),
    () => face.client.list({ workspace, path: "open" }),
    () => Array.fromAsync(face.client.readTree({ workspace, path: "open" })),
    () => write(face, { path: "open/secret", content: "changed", precondition: WritePrecondition.ANY }),
    () => face.client.remove({ workspace, path: "open/secret" }),
    () => face.client.move({ workspace, from: "open/secret", to: "elsewhere" }),
  ]) {
    const fault = await faultOf(work());
    expect([fault.code, fault.details["side"], fault.details["rule"]]).toEqual([
      "POLICY_DENIED",
      "gateway",
      "test",
    ]);
  }
  expect(await readFile(join(face.dir, "closed/secret"), "utf8")).toBe("secret");
  expect((await readdir(face.dir)).toSorted()).toEqual(["closed", "open"]);
});

proves("files.answers-name-source", "every answer says where it comes from", async () => {
  await using face = await makeFace();
  const { client } = face;
  await mkdir(join(face.dir, "real"));
  await writeFile(join(face.dir, "real/file"), "content");
  await symlink("real", join(face.dir, "alias"));
  const digest = digestOf("content");
  const from = (requestedPath: string, canonicalPath: string): Record<string, string> => ({
    nodeId: "n1",
    workspace: "app",
    requestedPath,
    canonicalPath,
  });
  for (const path of ["real", "alias"]) {
    const file = from(`${path}/file`, "real/file");
    expect((await client.stat({ workspace, path: `${path}/file` })).source).toMatchObject(file);
    expect((await client.list({ workspace, path })).source).toMatchObject(from(path, "real"));
    const [header, , trailer] = await read(face, `${path}/file`);
    expect(header?.part).toMatchObject({ case: "header", value: { source: file } });
    expect(trailer?.part).toMatchObject({ case: "trailer", value: { sizeBytes: 7n, digest } });
    const written = await write(face, {
      path: `${path}/new`,
      content: "content",
      precondition: WritePrecondition.ANY,
    });
    expect(written).toMatchObject({
      source: from(`${path}/new`, "real/new"),
      entry: { sizeBytes: 7n, digest },
    });
    const tree = await Array.fromAsync(client.readTree({ workspace, path }));
    expect(tree[0]?.source).toMatchObject(from(path, "real"));
    expect(tree.flatMap((part) => part.entries.map(({ entry }) => entry?.digest))).toEqual([digest, digest]);
    const closing = tree.at(-1)?.treeTrailer;
    expect(closing).toMatchObject({ files: 2n, sizeBytes: 14n, digest: expect.stringMatching(/^sha256:/) });
    const stored = await client.writeTree(
      (async function* () {
        yield { header: { workspace, path: `${path}/tree`, precondition: WritePrecondition.ANY } };
        for (const { entries, content, treeTrailer } of tree) {
          yield { entries, content, ...(treeTrailer ? { treeTrailer } : {}) };
        }
      })(),
    );
    expect(stored.source).toMatchObject(from(`${path}/tree`, "real/tree"));
    expect(stored.stored).toMatchObject({ files: 2n, sizeBytes: 14n, digest: closing?.digest });
    const made = await client.makeFolder({ workspace, path: `${path}/made` });
    expect(made.source).toMatchObject(from(`${path}/made`, "real/made"));
    const moved = await client.move({ workspace, from: `${path}/made`, to: `${path}/moved` });
    expect(moved.source).toMatchObject(from(`${path}/moved`, "real/moved"));
    const removed = await client.remove({ workspace, path: `${path}/moved` });
    expect(removed.source).toMatchObject(from(`${path}/moved`, "real/moved"));
    await client.remove({ workspace, path: `${path}/new` });
    await client.remove({ workspace, path: `${path}/tree`, recursive: true });
  }
});

test("a tree comes without what policy denies, and says so", async () => {
  await using face = await makeFace({ denied: ({ path }) => path.endsWith(".shut") });
  await writeFile(join(face.dir, "a.txt"), "a");
  await writeFile(join(face.dir, "b.shut"), "secret");
  await writeFile(join(face.dir, "c.shut"), Buffer.alloc(600_000, "secret"));
  await writeFile(join(face.dir, "d.txt"), "d");
  const parts = await Array.fromAsync(face.client.readTree({ workspace, path: "" }));
  const problems = parts.flatMap((part) => part.problems);
  expect(problems.map(({ path, fault }) => `${path} ${fault ? fromWireFault(fault).code : ""}`)).toEqual([
    "b.shut POLICY_DENIED",
    "c.shut POLICY_DENIED",
  ]);
  expect(parts.flatMap(({ entries }) => entries.map(({ entry }) => entry?.path))).toEqual(["a.txt", "d.txt"]);
  expect(Buffer.concat(parts.map(({ content }) => content)).toString()).toBe("ad");
  expect(parts.at(-1)?.treeTrailer).toMatchObject({ files: 2n, failed: 2n, sizeBytes: 2n });
  const strict = Array.fromAsync(face.client.readTree({ workspace, path: "", strict: true }));
  expect((await faultOf(strict)).code).toBe("POLICY_DENIED");
});

test("without a condition a write replaces only what its user last read", async () => {
  await using face = await makeFace();
  await writeFile(join(face.dir, "file"), "one");
  const unread = await faultOf(write(face, { path: "file", content: "two" }));
  expect([unread.code, unread.hint]).toEqual(["CONFLICT", expect.stringContaining("--if-match")]);
  await read(face, "file");
  await write(face, { path: "file", content: "two" });
  await write(face, { path: "file", content: "three" });
  await writeFile(join(face.dir, "file"), "by another");
  const changed = await faultOf(write(face, { path: "file", content: "four" }));
  expect([changed.code, changed.hint]).toEqual(["CONFLICT", expect.stringContaining("--if-match")]);
  expect(await readFile(join(face.dir, "file"), "utf8")).toBe("by another");
  await write(face, { path: "file", content: "four", precondition: WritePrecondition.ANY });
  expect(await readFile(join(face.dir, "file"), "utf8")).toBe("four");
});

test("a node that cannot be reached is a workspace that cannot be reached", async () => {
  let isOnline = true;
  await using face = await makeFace({ isOnline: () => isOnline });
  await writeFile(join(face.dir, "file"), "content");
  await face.client.stat({ workspace, path: "file" });
  isOnline = false;
  for (const work of [
    () => face.client.stat({ workspace, path: "file" }),
    () => face.client.list({ workspace, path: "" }),
    () => read(face, "file"),
    () => write(face, { path: "file", content: "new" }),
  ]) {
    const fault = await faultOf(work());
    expect([fault.code, fault.details["reason"]]).toEqual(["WORKSPACE_ACCESS_UNAVAILABLE", "node_offline"]);
    expect(fault.message).toContain("devbox:/app");
  }
});
