import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Admin } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Sessions } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { startFilesPair, type FilesPair } from "./pair.ts";

const workspace = "devbox:/app";
const content = "the content that no record holds";
const digest = digestOf(content);

interface Shown {
  readonly action: string;
  readonly outcome: string;
  readonly nodeId: string;
  readonly callId: string;
  readonly actor: string;
  readonly sessionId?: string;
  readonly details: Readonly<Record<string, unknown>>;
}

function write({ client }: FilesPair, path: string): Promise<unknown> {
  return writeWhole(client, { workspace, path, content });
}

async function writeTree(pair: FilesPair, path: string): Promise<unknown> {
  const tree = await Array.fromAsync(pair.client.readTree({ workspace, path: "d" }));
  return pair.client.writeTree(
    (async function* () {
      yield { header: { workspace, path, precondition: WritePrecondition.ANY } };
      for (const part of tree) {
        const { entries, content: bytes, treeTrailer } = part;
        yield { entries, content: bytes, ...(treeTrailer ? { treeTrailer } : {}) };
      }
    })(),
  );
}

proves(
  "files.audit-every-operation",
  "every operation leaves one record of who did what where, by which rule and how it ended, and no content",
  { timeout: 90_000 },
  async () => {
    await using pair = await startFilesPair({
      files: { "d/file.txt": content, "shut/x": "x", ".env": "e", "big.bin": Buffer.alloc(64 * 1024 * 1024) },
    });
    const socket = await findAdminSocket(join(pair.gateway.home, "gateway"));
    await using channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const admin = channel.client(Admin);
    await pair.setPolicy(
      "files:\n  shut: { deny: [shut] }\n  ask: { workspaces: [app], remove: false, ask: on-miss }\n",
    );
    const { client } = pair;
    const place = (path: string): { workspace: string; path: string } => ({ workspace, path });
    const allowed: Readonly<Record<string, () => Promise<unknown>>> = {
      "files.stat": () => client.stat(place("d/file.txt")),
      "files.list": () => client.list(place("d")),
      "files.list-tree": () => client.list({ ...place("d"), recursive: true }),
      "files.read": () => Array.fromAsync(client.read(place("d/file.txt"))),
      "files.read-tree": () => Array.fromAsync(client.readTree(place("d"))),
      "files.write": () => write(pair, "new.txt"),
      "files.mkdir": () => client.makeFolder(place("made")),
      "files.move": () => client.move({ workspace, from: "new.txt", to: "moved.txt" }),
    };
    for (const [action, run] of Object.entries(allowed)) {
      expect(await recordedBy(pair, run), action).toMatchObject([
        {
          action,
          actor: "agent:operator",
          outcome: "ok",
          nodeId: pair.node.nodeId,
          callId: expect.stringMatching(/./) as string,
          details: {
            agent: "operator",
            workspace,
            requestedPath: expect.any(String) as string,
            canonicalPath: expect.any(String) as string,
            decision: "allow",
            rule: "files.shut allow **",
            durationMs: expect.any(Number) as number,
          },
        },
      ]);
    }
    const [read] = await recordedBy(pair, () => Array.fromAsync(client.read(place("d/file.txt"))));
    expect(read?.details).toMatchObject({
      requestedPath: "d/file.txt",
      canonicalPath: "d/file.txt",
      bytes: content.length,
      digest,
    });
    const stored = await recordedBy(pair, () => writeTree(pair, "copy"), 2);
    expect(stored.map(({ action }) => action)).toEqual(["files.read-tree", "files.write-tree"]);
    expect(stored[1]?.details).toMatchObject({ bytes: content.length, canonicalPath: "copy" });

    // What only helps a write, or tells of changes, is looked for in the record too.
    const found: Readonly<Record<string, () => Promise<unknown>>> = {
      "files.find-part": () => client.findPart({ ...place("d/file.txt"), partKey: "key" }),
      "files.drop-part": () => client.dropPart({ ...place("d/file.txt"), partKey: "key" }),
      "files.settle": () => client.barrier({ workspace, token: "token" }),
      "files.list-tree": () => Array.fromAsync(client.manifest(place("d"))),
      "files.read": () => Array.fromAsync(client.listChunks(place("d/file.txt"))),
    };
    for (const [action, run] of Object.entries(found)) {
      const details = { canonicalPath: expect.any(String) as string, rule: "files.shut allow **" };
      expect(await recordedBy(pair, run), action).toMatchObject([{ action, outcome: "ok", details }]);
    }

    // By a tool of a session.
    const sessions = channel.client(Sessions);
    const { session } = await sessions.open({ agent: "coder", workspace });
    const call = (name: string, args: { readonly [name: string]: string }) => () =>
      Array.fromAsync(sessions.callTool({ session: session?.id ?? "", name, arguments: args }));
    const byTool = {
      agent: "coder",
      requestedPath: "d/file.txt",
      canonicalPath: "d/file.txt",
      rule: "files.shut allow **",
      bytes: content.length,
      digest,
    };
    const tools: readonly (readonly [string, () => Promise<unknown>, object])[] = [
      ["read", call("read", { path: "d/file.txt" }), { ...byTool, tool: "read" }],
      ["write", call("write", { path: "d/file.txt", content }), { ...byTool, tool: "write" }],
      ["list", call("list", { path: "d" }), { tool: "list", canonicalPath: "d" }],
    ];
    for (const [verb, run, details] of tools) {
      expect(await recordedBy(pair, run), verb).toMatchObject([
        {
          action: `files.${verb}`,
          actor: "agent:coder",
          sessionId: session?.id,
          nodeId: pair.node.nodeId,
          outcome: "ok",
          details: { ...details, decision: "allow" },
        },
      ]);
    }
    const refused = call("read", { path: "shut/x" });
    expect(await recordedBy(pair, () => faultOf(refused()))).toMatchObject([
      {
        outcome: "POLICY_DENIED",
        sessionId: session?.id,
        details: { rule: "files.shut deny shut", side: "gateway", decision: "deny", tool: "read" },
      },
    ]);

    const failing: readonly (readonly [string, () => Promise<unknown>, object])[] = [
      ["POLICY_DENIED", () => client.stat(place("shut/x")), { rule: "files.shut deny shut" }],
      ["POLICY_DENIED", () => client.stat(place(".env")), { rule: "deny **/.env*", side: "node" }],
      ["NOT_FOUND", () => client.stat(place("none")), { decision: "allow" }],
      ["PATH_INVALID", () => client.stat(place("../x")), { requestedPath: "../x" }],
    ];
    for (const [outcome, run, details] of failing) {
      expect(await recordedBy(pair, () => faultOf(run()))).toMatchObject([
        { action: "files.stat", outcome, details },
      ]);
    }
    // Left in the middle.
    const left = await recordedBy(pair, async () => {
      for await (const { part } of client.read(place("big.bin"))) if (part.case === "chunk") return;
    });
    expect(left).toMatchObject([{ action: "files.read", outcome: "CANCELLED" }]);

    // By whom it was allowed: a person, and then the grant that came of it.
    const removing = client.remove(place("moved.txt"));
    await expect
      .poll(async () => (await admin.listApprovals({ all: false })).approvals.length, { timeout: 10_000 })
      .toBe(1);
    const [asked] = (await admin.listApprovals({ all: false })).approvals;
    const byPerson = await recordedBy(pair, async () => {
      await admin.decideApproval({ id: asked?.id ?? "", allow: true, always: true });
      await removing;
    });
    expect(byPerson.at(0)).toMatchObject({
      action: "files.remove",
      outcome: "ok",
      details: { rule: "files.ask ask on-miss", approvalId: asked?.id, decision: "allow" },
    });
    await pair.workspace.write({ "moved.txt": content });
    const byGrant = await recordedBy(pair, () => client.remove(place("moved.txt")));
    const [grant] = (await admin.listGrants({})).grants;
    expect(byGrant).toMatchObject([
      { outcome: "ok", details: { grantId: grant?.id, rule: `files.ask grant ${grant?.id ?? ""}` } },
    ]);
    // One for each, and no more: 8 that went well, a read, a tree both ways, 5 that help or tell, 4 by tools, 4 that failed,
    // one left, two by leave.
    expect(await recordsOf(pair)).toHaveLength(27);
    const folder = join(pair.gateway.home, "gateway", "audit");
    for (const name of await readdir(folder)) {
      expect(await readFile(join(folder, name), "utf8")).not.toContain(content);
    }
  },
);

/** The records of files, from the files of the record. */
async function recordsOf(pair: FilesPair): Promise<readonly Shown[]> {
  const folder = join(pair.gateway.home, "gateway", "audit");
  const texts = await Promise.all(
    (await readdir(folder)).toSorted().map((name) => readFile(join(folder, name), "utf8")),
  );
  const lines = texts
    .join("")
    .split("\n")
    .filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as Shown).filter(({ action }) => action.startsWith("files."));
}

/** The records that came while `run` went on, once there are so many. */
async function recordedBy(
  pair: FilesPair,
  run: () => Promise<unknown>,
  count = 1,
): Promise<readonly Shown[]> {
  const before = (await recordsOf(pair)).length;
  await run();
  let all: readonly Shown[] = [];
  await expect
    .poll(async () => (all = await recordsOf(pair)).length - before, { timeout: 10_000, interval: 10 })
    .toBe(count);
  return all.slice(before);
}
