import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { gatewayDefaults } from "../../../gateway/config/gateway-settings.ts";
import { Admin, type Approval } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { errorOf, startFilesPair, type FilesPair } from "./pair.ts";

let pair: FilesPair;
let admin: Client<typeof Admin>;
let channel: GrpcClient;

beforeAll(async () => {
  pair = await startFilesPair({
    files: { "d/one": "1", "d/deep/two": "22", "file.txt": "content", "kept.txt": "kept" },
    config: "limits:\n  approvalWaitMs: 6000\n",
  });
  const socket = await findAdminSocket(join(pair.gateway.home, "gateway"));
  channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
  admin = channel.client(Admin);
  await pair.setPolicy(
    `files:\n  ask: { nodes: ["${pair.node.nodeId}"], read: [], write: [], ask: on-miss }\n`,
  );
}, 60_000);

afterAll(async () => {
  await channel[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
}, 60_000);

async function waiting(): Promise<Approval> {
  let found: Approval | undefined;
  await expect
    .poll(async () => ([found] = (await admin.listApprovals({ all: false })).approvals).length, {
      timeout: 20_000,
      interval: 20,
    })
    .toBe(1);
  if (!found) throw new Error("nothing waits");
  return found;
}

/** Answers the command's question once it is asked. */
async function answered(
  command: Promise<CliResult>,
  allow: boolean,
): Promise<{ readonly result: CliResult; readonly approval: Approval }> {
  const approval = await waiting();
  await admin.decideApproval({ id: approval.id, allow });
  return { result: await command, approval };
}

describe("what policy asks about", () => {
  proves(
    "files.approval-shown",
    "waits as one approval that shows all of it, and then exactly that is done",
    { timeout: 90_000 },
    async () => {
      let isTaken = false;
      const removing = pair.client.remove(
        { workspace: "devbox:/app", path: "d", recursive: true },
        { onTaken: () => void (isTaken = true) },
      );
      const asked = await waiting();
      expect(isTaken).toBe(false);
      expect(JSON.parse(asked.detail)).toEqual({
        operation: "remove_tree",
        agent: "operator",
        node: "devbox",
        nodeId: pair.node.nodeId,
        workspace: "app",
        path: "d",
        canonicalPath: "d",
        stands: "folder",
        entriesBelow: 3,
      });
      expect(asked).toMatchObject({
        title: "operator: remove tree devbox:/app/d",
        agent: "operator",
        node: "devbox",
        rule: "files.ask ask on-miss",
      });
      expect(await pair.workspace.text("d/one")).toBe("1");
      await admin.decideApproval({ id: asked.id, allow: true });
      expect((await removing).removed).toBe(4n);
      expect(isTaken).toBe(true);

      const { result, approval } = await answered(pair.files(["cat", "devbox:/app/file.txt"]), true);
      expect(result).toMatchObject({ exitCode: 0, stdout: "content" });
      expect(JSON.parse(approval.detail)).toMatchObject({
        operation: "read",
        path: "file.txt",
        sizeBytes: 7,
      });

      // What was allowed beforehand is that and nothing else, and once.
      await pair.workspace.write({ "d/one": "1" });
      const words = ["rm", "devbox:/app/d/one", "--no-wait", "--json"];
      const id = String(errorOf(await pair.files(words)).details["approvalId"]);
      await admin.decideApproval({ id, allow: true });
      const other = await pair.files([...words, "--recursive"]);
      expect(errorOf(other)).toMatchObject({ code: "APPROVAL_REQUIRED" });
      expect(await pair.workspace.text("d/one")).toBe("1");
      expect((await pair.files(words)).exitCode).toBe(0);
      expect(await pair.workspace.has("d/one")).toBe(false);
      await pair.workspace.write({ "d/one": "1" });
      expect(errorOf(await pair.files(words))).toMatchObject({ code: "APPROVAL_REQUIRED" });
      for (const { id: left } of (await admin.listApprovals({ all: false })).approvals) {
        await admin.decideApproval({ id: left, allow: false });
      }
    },
  );

  proves(
    "files.approval-outcomes",
    "is denied, expires or must be asked for, each with its code, and nothing is done",
    { timeout: 90_000 },
    async () => {
      // What the gateway of this test waits for is less than what it would by itself.
      expect(gatewayDefaults.limits.approvalWaitMs).toBe(120_000);
      const words = ["rm", "devbox:/app/kept.txt", "--json"];
      const denied = await answered(pair.files(words), false);
      expect(denied.result.exitCode).toBe(3);
      expect(errorOf(denied.result)).toMatchObject({
        code: "APPROVAL_DENIED",
        details: { approvalId: denied.approval.id },
      });
      const expired = await pair.files(words);
      expect(expired.exitCode).toBe(3);
      expect(errorOf(expired)).toMatchObject({ code: "APPROVAL_EXPIRED", details: { reason: "timeout" } });
      const required = await pair.files([...words, "--no-wait"]);
      expect(required.exitCode).toBe(3);
      const { approvalId } = errorOf(required).details;
      expect(errorOf(required)).toMatchObject({ code: "APPROVAL_REQUIRED" });
      expect((await admin.listApprovals({ all: false })).approvals.map(({ id }) => id)).toEqual([approvalId]);
      await admin.decideApproval({ id: String(approvalId), allow: false });
      // Nor is anything sent of what would be read or written.
      const local = join(pair.workspace.path, "kept.txt");
      const put = await pair.files(["put", local, "devbox:/app/new.txt", "--no-wait", "--json"]);
      expect(put.exitCode).toBe(3);
      const cat = await pair.files(["cat", "devbox:/app/kept.txt", "--no-wait"]);
      expect([cat.exitCode, cat.stdout]).toEqual([3, ""]);
      expect(await pair.workspace.text("kept.txt")).toBe("kept");
      expect(await pair.workspace.has("new.txt")).toBe(false);
      for (const { id } of (await admin.listApprovals({ all: false })).approvals) {
        await admin.decideApproval({ id, allow: false });
      }
    },
  );
});

test("a command that looks first is one operation, and asks one question", { timeout: 60_000 }, async () => {
  await using here = await makeTempFolder();
  const before = new Set((await admin.listApprovals({ all: true })).approvals.map(({ id }) => id));
  const asked = async (): Promise<readonly unknown[]> => {
    const { approvals } = await admin.listApprovals({ all: true });
    return approvals
      .filter(({ id }) => !before.has(id))
      .map(({ detail }) => JSON.parse(detail) as { operation: string; path: string })
      .map(({ operation, path }) => `${operation} ${path}`);
  };
  await pair.workspace.write({ "tree/one": "1", "tree/deep/two": "22" });
  const tree = await answered(pair.files(["get", "devbox:/app/tree", here.join("got"), "--json"]), true);
  expect(tree.result).toMatchObject({ exitCode: 0, json: { files: 2, folders: 1 } });
  const file = await answered(pair.files(["get", "devbox:/app/tree/one", here.join("one")]), true);
  expect(file.result.exitCode).toBe(0);
  expect(await readFile(here.join("one"), "utf8")).toBe("1");
  // A folder takes the file under its own name; once it is granted, nothing is asked any more.
  await writeFile(here.join("new"), "new");
  const put = ["put", here.join("new"), "devbox:/app/tree", "--if-match", "any"];
  const putting = pair.files(put);
  await admin.decideApproval({ id: (await waiting()).id, allow: true, always: true });
  expect((await putting).exitCode).toBe(0);
  expect((await pair.files([...put, "--no-wait"])).exitCode).toBe(0);
  expect(await pair.workspace.text("tree/new")).toBe("new");
  expect(await asked()).toEqual(["read_tree tree", "read tree/one", "write tree/new"]);
  for (const { id } of (await admin.listGrants({})).grants) await admin.revokeGrant({ id });
});

interface ShownGrant {
  readonly id: string;
  readonly agent: string;
  readonly expiresAt: string;
  readonly createdAt: string;
}

async function grants(): Promise<readonly ShownGrant[]> {
  const { grants: all } = (await pair.gateway.json(["approvals", "grants", "ls"])) as {
    grants: readonly ShownGrant[];
  };
  return all;
}

proves(
  "files.grant-life",
  "a grant is kept once its operation has succeeded, is listed, and ends by time or by hand",
  { timeout: 120_000 },
  async () => {
    const path = "devbox:/app/file.txt";
    const cat = (): Promise<CliResult> => pair.files(["cat", path, "--no-wait", "--json"]);
    const ask = async (words: readonly string[]): Promise<string> => {
      const result = await pair.files([...words, "--no-wait", "--json"]);
      expect(errorOf(result)).toMatchObject({ code: "APPROVAL_REQUIRED" });
      return String(errorOf(result).details["approvalId"]);
    };
    const allow = async (id: string, ...more: readonly string[]): Promise<void> => {
      expect(await pair.gateway.json(["approvals", "allow", id, ...more])).toMatchObject({
        state: "allowed",
      });
    };
    // What was allowed for longer and then failed leaves nothing.
    const failing = ["rm", "devbox:/app/kept.txt", "--if-match", `sha256:${"0".repeat(64)}`];
    await allow(await ask(failing), "--always");
    expect(errorOf(await pair.files([...failing, "--json"]))).toMatchObject({ code: "CONFLICT" });
    expect(await grants()).toEqual([]);

    await allow(await ask(["cat", path]), "--always", "--for", "30d");
    expect(await grants()).toEqual([]);
    expect((await cat()).exitCode).toBe(0);
    const [grant, ...more] = await grants();
    expect(more).toEqual([]);
    expect(grant).toMatchObject({
      agent: "operator",
      session: null,
      tool: null,
      node: "devbox",
      nodeId: pair.node.nodeId,
      workspace: "app",
      kind: "read",
      requestedPath: "file.txt",
      canonicalPath: "file.txt",
      grantedBy: "local",
    });
    const lifeMs = Date.parse(grant?.expiresAt ?? "") - Date.parse(grant?.createdAt ?? "");
    expect(lifeMs).toBe(30 * 86_400_000);
    // The node keeps it under another name.
    await pair.gateway.json(["nodes", "rename", "devbox", "other"]);
    const renamed = ["cat", "other:/app/file.txt", "--no-wait", "--json"];
    expect((await pair.files(renamed)).exitCode).toBe(0);
    await pair.gateway.json(["nodes", "rename", "other", "devbox"]);
    expect((await cat()).exitCode).toBe(0);

    const revoked = await pair.gateway.json(["approvals", "grants", "revoke", grant?.id.slice(0, 6) ?? ""]);
    expect(revoked).toMatchObject({ id: grant?.id, revoked: true });
    expect(await grants()).toEqual([]);
    await allow(await ask(["cat", path]), "--always", "--for", "4s");
    expect((await cat()).exitCode).toBe(0);
    expect(await grants()).toHaveLength(1);
    await expect.poll(async () => (await admin.listGrants({})).grants.length, { timeout: 10_000 }).toBe(0);
    await ask(["cat", path]);
  },
);
