import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { openContentStore } from "../../../gateway/files/content-store.ts";
import type { NodeRecord } from "../../../gateway/pairing/nodes.ts";
import { createSessionSkills } from "../../../gateway/sessions/session-skills.ts";
import type { Caller } from "../../../gateway/tools/caller.ts";
import { type ChunkList, listWhole } from "../../../shared/content/chunks.ts";
import { type Digest, digestOf } from "../../../shared/content/digest.ts";
import {
  FilesWriteTreeRequestSchema,
  WritePrecondition,
  type FilesWriteTreeRequest,
  type TreeEntry,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { Lease } from "../../../shared/lifetime/lease.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { toWireList } from "../../../shared/tree/delta.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, type Published, published } from "../../support/published-skills.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { treeEntry, treeMessages } from "./hostile-pair.ts";

const workspace = "devbox:/app";
/** May write everywhere, and read only what is its own. */
const policy = "files:\n  own: { read: [own], write: ['**'] }\n";

interface Secret {
  readonly bytes: Buffer;
  readonly digest: Digest;
  readonly chunks: ChunkList;
}

async function makeSecret(): Promise<Secret> {
  const bytes = randomBytes(2 * 1024 * 1024);
  const source = { read: async (buffer: Uint8Array, at: number) => bytes.copy(buffer, 0, at) };
  const { signal } = new AbortController();
  const chunks = await listWhole(source, { sizeBytes: bytes.length, signal, onRead: () => undefined });
  if (!chunks) throw new Error("it has no chunks");
  return { bytes, digest: digestOf(bytes), chunks };
}

async function* writeTree(entries: readonly TreeEntry[]): AsyncGenerator<FilesWriteTreeRequest, void> {
  const header = { workspace, path: "", precondition: WritePrecondition.ANY };
  yield create(FilesWriteTreeRequestSchema, { header });
  for (const { entries: some, treeTrailer, content } of treeMessages(entries))
    yield create(FilesWriteTreeRequestSchema, {
      entries: some,
      content,
      ...(treeTrailer ? { treeTrailer } : {}),
    });
}

/** Everything that a digest could be used for at the gateway's files; the bytes and codes that came of it. */
async function attackFiles(
  { client }: FilesKit,
  { bytes, digest, chunks }: Secret,
): Promise<readonly string[]> {
  const codes: string[] = [];
  const attempt = async (work: () => Promise<unknown>): Promise<void> =>
    void codes.push((await faultOf(work())).code);
  const [path, knownChunks] = ["secret", toWireList(chunks)];
  const resume = { resumeBytes: 1n, resumeDigest: digestOf(bytes.subarray(0, 1)) };
  for (const more of [{}, { ifMatch: digest }, resume, { knownChunks }])
    await attempt(() => Array.fromAsync(client.read({ workspace, path, ...more })));
  await attempt(() => Array.fromAsync(client.listChunks({ workspace, path })));
  // What is its own is compared with what it says that it has: copies of that tell it nothing that it has not.
  const parts = await Array.fromAsync(client.read({ workspace, path: "own", knownChunks }));
  codes.push(parts.map(({ part }) => part.case).join(" "));
  const sizeBytes = BigInt(bytes.length);
  const write = (to: string, header: object, middle: readonly object[]): Promise<unknown> =>
    client.write(
      (async function* () {
        const target = { workspace, path: to, precondition: WritePrecondition.ANY, sizeBytes };
        yield { part: { case: "header" as const, value: { ...target, ...header } } };
        for (const copy of middle) yield { part: { case: "copy" as const, value: copy } };
        yield { part: { case: "trailer" as const, value: { sizeBytes, digest } } };
      })(),
    );
  await attempt(() => write("stolen", {}, []));
  await attempt(() => write("stolen", { partKey: "key", resumeBytes: sizeBytes, resumeDigest: digest }, []));
  await attempt(() => write("secret", {}, [{ offset: 0n, sizeBytes }]));
  await attempt(() => write("own", {}, [{ offset: 0n, sizeBytes }]));
  for (const [to, more] of [
    ["stolen", { copyFrom: "secret", digest, sizeBytes }],
    ["stolen", { copyFrom: "own", digest, sizeBytes }],
    ["stolen", { copyFrom: "stolen", digest, sizeBytes }],
  ] as const) {
    const { problems } = await client.writeTree(writeTree([treeEntry(to, more)]));
    codes.push(...problems.map(({ fault }) => `tree ${fault ? fromWireFault(fault).code : ""}`));
  }
  return codes;
}

interface FilePart {
  readonly bytes: Buffer;
  readonly digest: Digest;
}

/** A node that sends `bytes` for whatever it is asked, and calls them `digest`. */
function sends({
  bytes,
  digest,
}: FilePart): NonNullable<Parameters<ReturnType<typeof createTestCatalogue>["publish"]>[2]> {
  return async function* () {
    const sizeBytes = BigInt(bytes.length);
    yield { part: { case: "header" as const, value: { entry: { sizeBytes } } } };
    yield { part: { case: "chunk" as const, value: bytes } };
    yield { part: { case: "trailer" as const, value: { sizeBytes, digest } } };
  };
}

function callerOf(agent: string, nodeId: string): Caller {
  const lease = new Lease({ what: "a session", epoch: 1 });
  return { agent, session: { id: agent, nodeId, workspace: "app", lease } };
}

proves(
  "files.digest-is-no-permission",
  "whoever knows a digest and may not read the file gets its content from nowhere",
  { timeout: 60_000 },
  async () => {
    const secret = await makeSecret();
    await using kit = await openFilesKit({
      policy,
      fill: (dir) => {
        writeFileSync(join(dir, "secret"), secret.bytes);
        writeFileSync(join(dir, "own"), "its own");
      },
    });
    const denied = "POLICY_DENIED";
    expect(await attackFiles(kit, secret)).toEqual([
      denied,
      denied,
      denied,
      denied,
      denied,
      "header chunk trailer",
      "INTEGRITY_FAILURE",
      "CONFLICT",
      denied,
      "CONFLICT",
      `tree ${denied}`,
      "tree INTEGRITY_FAILURE",
      `tree ${denied}`,
    ]);
    expect(readdirSync(kit.dir).toSorted()).toEqual(["own", "secret"]);
    expect(readFileSync(join(kit.dir, "secret")).equals(secret.bytes)).toBe(true);
    expect(readFileSync(join(kit.dir, "own"), "utf8")).toBe("its own");

    // The gateway's store: it holds what a session may read that another may not.
    await using folder = await makeTempFolder();
    const store = { dir: folder.join("content"), maxBytes: 1024 ** 2, clock: systemClock, log: silentLog };
    const content = await openContentStore(store);
    const { catalogue, links, publish, withdraw } = createTestCatalogue();
    const hidden = Buffer.from("what only the one may read");
    const digest = digestOf(hidden);
    const skill = (name: string): Published => published(name, { digest });
    const skills = createSessionSkills({
      catalogue,
      links,
      content,
      nodes: { list: async () => ["victim", "thief"].map((id) => ({ id }) as NodeRecord) },
      policy: {
        decideFile: ({ agent, node }) => ({
          decision: agent === "owner" || node.id === "thief" ? "allow" : "deny",
          rule: "the test's",
          side: "gateway",
        }),
      } as Parameters<typeof createSessionSkills>[0]["policy"],
    });
    const { signal } = new AbortController();
    const read = async (caller: Caller, name: string): Promise<string> => {
      const parts = await Array.fromAsync(skills.read(caller, { name, path: "", signal }));
      return Buffer.concat(
        parts.map((part) => (part.kind === "chunk" ? part.bytes : Buffer.alloc(0))),
      ).toString();
    };
    await publish({ id: "victim" }, [skill("private")], sends({ bytes: hidden, digest }));
    const owner = callerOf("owner", "victim");
    expect(await read(owner, "private")).toBe(hidden.toString());
    expect(content.use).toEqual({ contents: 1, bytes: hidden.length });
    // Another node says that a skill of its own has this digest, and its session asks for it.
    const lie = Buffer.from("what the other sends in its place");
    await publish({ id: "thief" }, [skill("claimed")], sends({ bytes: lie, digest }));
    const thief = callerOf("thief", "thief");
    for (let time = 0; time < 2; time += 1) expect(await read(thief, "claimed")).toBe(lie.toString());
    expect((await faultOf(read(thief, "victim-private"))).code).toBe("NOT_FOUND");
    expect((await faultOf(read(thief, "private"))).code).toBe("NOT_FOUND");
    expect(content.use).toEqual({ contents: 1, bytes: hidden.length });
    // Also while both nodes are away, when nothing but the store could answer.
    withdraw("thief");
    withdraw("victim");
    expect((await faultOf(read(thief, "claimed"))).code).toBe("NODE_OFFLINE");
    expect(await read(owner, "private")).toBe(hidden.toString());
    // And what the other wrote to the store, it wrote as its own.
    await content.keep({ nodeId: "thief", digest: digestOf(lie) }, lie);
    expect((await faultOf(content.keep({ nodeId: "thief", digest }, lie))).code).toBe("INTEGRITY_FAILURE");
    expect(await content.open({ nodeId: "thief", digest })).toBeUndefined();
    expect(await content.open({ nodeId: "victim", digest: digestOf(lie) })).toBeUndefined();
    expect(await read(owner, "private")).toBe(hidden.toString());
  },
);
