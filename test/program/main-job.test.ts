import { createHash, randomBytes } from "node:crypto";
import { lstat, readFile, stat, utimes, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../support/cli-fault.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { startNode, type TestNode } from "../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../support/temp-workspace.ts";

// Two homes, two programs: a machine pairs, and its files, skills, memory and commands are worked with from the other.
const patience = { timeout: 120_000 };
const big = randomBytes(17 * 1024 * 1024);
const skill = "---\nname: review\ndescription: Reviews a change before it is merged\n---\nRead the change.\n";

let stack: AsyncDisposableStack;
let gateway: TestGateway;
let workspace: TempWorkspace;
let node: TestNode;
let local: TempFolder;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  gateway = stack.use(await startGateway());
  workspace = stack.use(
    await makeTempWorkspace({
      "README.md": "# App\n",
      "src/main.ts": "export const answer = 42;\n",
      "big.bin": big,
      "skills/review/SKILL.md": skill,
      "MEMORY.md": "# Decisions\n\nThe settle period of the watcher is five seconds.\nThe third line.\n",
      "memory/2026-03-01.md": "The release train leaves on Thursday.\n",
    }),
  );
  local = stack.use(await makeTempFolder());
  node = stack.use(
    await startNode({ gateway, profile: "work", workspaces: { app: `${workspace.path}:rw` }, exec: "full" }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

test("a folder is listed as it is on the machine's disk", patience, async () => {
  const answer = await gateway.json(["files", "ls", "devbox:/app"]);
  expect(memberOf(answer, "source")).toMatchObject({ nodeId: node.nodeId, workspace: "app" });
  const entries = listOf(answer, "entries");
  expect(entries.map((entry) => memberOf(entry, "path"))).toEqual([
    "MEMORY.md",
    "README.md",
    "big.bin",
    "memory",
    "skills",
    "src",
  ]);
  for (const entry of entries) {
    const found = await lstat(workspace.join(String(memberOf(entry, "path"))), { bigint: true });
    expect(entry).toMatchObject({
      kind: found.isDirectory() ? "folder" : "file",
      sizeBytes: found.isDirectory() ? 0 : Number(found.size),
      mode: (Number(found.mode) & 0o7777).toString(8).padStart(4, "0"),
      modifiedAt: `${new Date(Number(found.mtimeMs)).toISOString().slice(0, 19)}.${String((found.mtimeNs / 1000n) % 1_000_000n).padStart(6, "0")}Z`,
    });
  }
  expect(await gateway.json(["files", "stat", "devbox:/app/src/main.ts"])).toMatchObject({
    path: "src/main.ts",
    kind: "file",
    sizeBytes: 26,
    source: { nodeId: node.nodeId, canonicalPath: "src/main.ts" },
  });
});

test(
  "a big file arrives with its bytes, mode and time, and the answer says what moved",
  patience,
  async () => {
    await utimes(workspace.join("big.bin"), 1_700_000_000.123_456, 1_700_000_000.123_456);
    const target = local.join("big.bin");
    const answer = await gateway.json(["files", "get", "devbox:/app/big.bin", target]);
    expect(answer).toMatchObject({
      filesSent: 1,
      bytesSent: big.byteLength,
      filesReused: 0,
      bytesReused: 0,
      failed: [],
      durationMs: expect.any(Number),
      digest: digestOf(big),
      source: { nodeId: node.nodeId, workspace: "app", canonicalPath: "big.bin" },
    });
    expect(digestOf(await readFile(target))).toBe(digestOf(big));
    const [from, to] = [await stat(workspace.join("big.bin")), await stat(target)];
    expect([to.mode, to.mtimeMs]).toEqual([from.mode, from.mtimeMs]);

    const people = await gateway.cli(["files", "get", "devbox:/app/README.md", local.path]);
    expect(people).toMatchObject({ exitCode: 0, stderr: "" });
    expect(people.stdout).toMatch(/^devbox:\/app\/README\.md -> .*: 1 file, 6 bytes in .* s\n$/);
    expect(await readFile(local.join("README.md"), "utf8")).toBe("# App\n");
  },
);

test("a file is stored whole, and nothing that was not read is replaced", patience, async () => {
  const put = (source: string, path: string, ...args: readonly string[]) =>
    gateway.cli(["files", "put", local.join(source), `devbox:/app/${path}`, ...args, "--json"]);
  await writeFile(local.join("source.bin"), big, { mode: 0o640 });
  const stored = await put("source.bin", "stored/big.bin");
  expect({ exitCode: stored.exitCode, json: stored.json }).toMatchObject({
    exitCode: 0,
    json: { filesSent: 1, bytesSent: big.byteLength, failed: [], digest: digestOf(big) },
  });
  expect(digestOf(await workspace.bytes("stored/big.bin"))).toBe(digestOf(big));
  expect((await stat(workspace.join("stored/big.bin"))).mode & 0o777).toBe(0o640);

  await writeFile(local.join("ours.txt"), "ours");
  await workspace.write({ "taken.txt": "theirs" });
  expect(faultOf(await put("ours.txt", "taken.txt"))).toMatchObject({ exitCode: 6, code: "CONFLICT" });
  expect(faultOf(await put("ours.txt", "taken.txt", "--if-match", "absent"))).toMatchObject({
    exitCode: 6,
    code: "ALREADY_EXISTS",
  });
  const theirs = digestOf(Buffer.from("theirs"));
  expect(faultOf(await put("ours.txt", "taken.txt", "--if-match", digestOf(big)))).toMatchObject({
    exitCode: 6,
    code: "CONFLICT",
    details: { expected: digestOf(big), actual: theirs },
  });
  expect(await workspace.text("taken.txt")).toBe("theirs");
  expect((await put("ours.txt", "taken.txt", "--if-match", theirs)).exitCode).toBe(0);
  await workspace.write({ "taken.txt": "changed on the machine" });
  expect(faultOf(await put("ours.txt", "taken.txt"))).toMatchObject({
    exitCode: 6,
    code: "CONFLICT",
    hint: expect.stringContaining("--if-match"),
  });
  expect(await workspace.text("taken.txt")).toBe("changed on the machine");
  expect((await put("ours.txt", "taken.txt", "--if-match", "any")).exitCode).toBe(0);
  expect(await workspace.text("taken.txt")).toBe("ours");
});

test("the skills and memory of the machine are read under its name", patience, async () => {
  expect(await gateway.json(["skills", "ls"])).toMatchObject({
    skills: [{ name: "devbox-review", owner: "devbox", workspace: "app", state: "eligible", reasons: [] }],
  });
  expect((await gateway.cli(["skills", "read", "devbox-review"])).stdout).toBe(skill);
  expect(await gateway.json(["memory", "search", "settle period"])).toMatchObject({
    hits: [
      {
        node: "devbox",
        workspace: "devbox:/app",
        path: "MEMORY.md",
        firstLine: 1,
        lastLine: expect.any(Number),
        digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        text: expect.stringContaining("The settle period of the watcher is five seconds."),
      },
    ],
    workspaces: [{ workspace: "devbox:/app", fresh: true, pending: 0, files: 2 }],
  });
  const lines = await gateway.cli(["memory", "get", "devbox:/app/MEMORY.md", "--from", "3", "--lines", "1"]);
  expect(lines).toMatchObject({
    exitCode: 0,
    stdout: "The settle period of the watcher is five seconds.\n",
  });
});

async function waitingApproval(command: string): Promise<string> {
  const found = { id: "" };
  const look = async (): Promise<string> => {
    const approvals = listOf(await gateway.json(["approvals", "ls"]), "approvals");
    const one = approvals.find(
      (approval) =>
        memberOf(approval, "state") === "waiting" && String(memberOf(approval, "detail")).includes(command),
    );
    const id = memberOf(one, "id");
    found.id = typeof id === "string" ? id : "";
    return found.id;
  };
  await expect.poll(look, { timeout: 30_000, interval: 100 }).not.toBe("");
  return found.id;
}

const exec = (command: string, ...args: readonly string[]) =>
  gateway.cli(["tools", "call", "devbox__exec", "--args", JSON.stringify({ command }), "--json", ...args], {
    timeoutMs: 60_000,
  });

test("a command waits for a person, and runs on the machine once it is allowed", patience, async () => {
  const asked = exec("echo from $PWD; echo oops >&2; exit 3");
  const id = await waitingApproval("echo from");
  expect(await gateway.json(["approvals", "show", id.slice(0, 10)])).toMatchObject({ id, node: "devbox" });
  expect(await gateway.json(["approvals", "allow", id])).toMatchObject({ id, state: "allowed" });
  // The command ran and failed: its own exit status is in the document, and the program's is 1.
  const { exitCode, json } = await asked;
  expect({ exitCode, json }).toMatchObject({
    exitCode: 1,
    json: { content: [{ type: "text" }], details: { exitCode: 3, cwd: "/app" } },
  });
  const [content] = listOf(json, "content");
  expect(memberOf(content, "text")).toContain("oops");

  // One that a signal ended is not one that is done.
  const ended = exec("echo begun; kill -9 $$");
  await gateway.cli(["approvals", "allow", await waitingApproval("kill -9")]);
  expect(await ended).toMatchObject({ exitCode: 1, json: { details: { signal: "SIGKILL" } } });

  const denied = exec("echo never > denied.txt");
  const other = await waitingApproval("denied.txt");
  expect((await gateway.cli(["approvals", "deny", other])).exitCode).toBe(0);
  expect(faultOf(await denied)).toMatchObject({ exitCode: 3, code: "APPROVAL_DENIED" });
  expect(await workspace.has("denied.txt")).toBe(false);
});

test(
  "a command that may not wait says which approval is needed, and runs once it was given",
  patience,
  async () => {
    const first = faultOf(await exec("echo allowed > later.txt", "--no-wait"));
    expect(first).toMatchObject({ exitCode: 3, code: "APPROVAL_REQUIRED" });
    const id = String(first.details["approvalId"]);
    expect(first.hint).toContain(`fairlead approvals allow ${id}`);
    expect(await workspace.has("later.txt")).toBe(false);
    expect((await gateway.cli(["approvals", "allow", id])).exitCode).toBe(0);
    // An approval is for exactly what was shown.
    expect(faultOf(await exec("echo other > later.txt", "--no-wait"))).toMatchObject({
      code: "APPROVAL_REQUIRED",
    });
    const { exitCode, json } = await exec("echo allowed > later.txt", "--no-wait");
    expect({ exitCode, json }).toMatchObject({ exitCode: 0, json: { details: { exitCode: 0 } } });
    expect(await workspace.text("later.txt")).toBe("allowed\n");
  },
);
