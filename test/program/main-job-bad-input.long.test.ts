import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { faultOf } from "../support/cli-fault.ts";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { startNode, type TestNode } from "../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../support/temp-workspace.ts";

// Bad input gets one error with code, hint and exit status, and changes nothing.
const patience = { timeout: 180_000 };

let stack: AsyncDisposableStack;
let gateway: TestGateway;
let workspace: TempWorkspace;
let local: TempFolder;
let node: TestNode;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  gateway = stack.use(await startGateway());
  workspace = stack.use(
    await makeTempWorkspace({ "file.txt": "text", "folder/in.txt": "in", "MEMORY.md": "# Notes\n" }),
  );
  local = stack.use(await makeTempFolder());
  await writeFile(local.join("new.txt"), "new");
  node = stack.use(
    await startNode({ gateway, profile: "full", exec: "full", workspaces: { app: `${workspace.path}:rw` } }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

/** A command line, the code that it must end with, and its exit status. */
type Case = readonly [args: readonly string[], code: string, exitCode: number];

/** Runs each with `--json`, two at a time; each gives exactly one error object with a hint. */
async function expectRefused(cases: readonly Case[]): Promise<void> {
  const rest = cases.values();
  const work = async (): Promise<void> => {
    for (const [args, code, exitCode] of rest) {
      const result = await gateway.cli([...args, "--json"]);
      const { message, hint, ...fault } = faultOf(result);
      expect({ args, ...fault, hint }).toMatchObject({
        args,
        code,
        exitCode,
        hint: expect.stringMatching(/\S/),
        details: expect.any(Object),
      });
      expect(message).toMatch(/^\S.*[^.]$/s);
      expect(message).not.toContain(workspace.path);
      expect(Object.keys(Object(result.json))).toEqual(["error"]);
    }
  };
  await Promise.all([work(), work()]);
}

const put = (...args: readonly string[]): readonly string[] => [
  "files",
  "put",
  local.join("new.txt"),
  ...args,
];
const tool = (name: string, args: string): readonly string[] => ["tools", "call", name, "--args", args];

test(
  "a remote path that is none, or leads nowhere, is refused before anything happens",
  patience,
  async () => {
    await expectRefused([
      [["files", "ls", "devbox"], "INVALID_ARGUMENT", 2],
      [["files", "ls", "/app"], "INVALID_ARGUMENT", 2],
      [["files", "cat", "devbox:app/file.txt"], "INVALID_ARGUMENT", 2],
      [["files", "stat", ":/app/file.txt"], "INVALID_ARGUMENT", 2],
      [["files", "get", "devbox:/"], "INVALID_ARGUMENT", 2],
      [["files", "cat", "devbox:/app/../file.txt"], "PATH_INVALID", 2],
      [["files", "cat", "devbox:/app//file.txt"], "PATH_INVALID", 2],
      [["files", "mkdir", "devbox:/app/folder/../../x"], "PATH_INVALID", 2],
      [put("devbox:/app/../escaped.txt"), "PATH_INVALID", 2],
      [["files", "ls", "nobody:/app"], "NOT_FOUND", 4],
      [["files", "ls", "devbox:/none"], "NOT_FOUND", 4],
      [["files", "ls", "devbox:/app/none"], "NOT_FOUND", 4],
      [["files", "get", "devbox:/app/none", local.join("none")], "NOT_FOUND", 4],
      [["files", "put", local.join("none"), "devbox:/app/none"], "NOT_FOUND", 4],
      [["files", "cat", "devbox:/app/folder"], "NOT_A_FILE", 1],
      [["files", "ls", "devbox:/app/file.txt"], "NOT_A_DIRECTORY", 1],
      [put("devbox:/app/file.txt/below.txt"), "NOT_A_DIRECTORY", 1],
      [["files", "mkdir", "devbox:/app/folder"], "ALREADY_EXISTS", 6],
      [["files", "rm", "devbox:/app/folder"], "NOT_EMPTY", 6],
      [["files", "rm", "--recursive", "devbox:/app"], "INVALID_ARGUMENT", 2],
      [["files", "mv", "devbox:/app/file.txt", "devbox:/app/folder"], "ALREADY_EXISTS", 6],
      [["files", "mv", "devbox:/app/folder", "devbox:/app/folder/below"], "INVALID_ARGUMENT", 2],
      [["files", "mv", "devbox:/app/none", "devbox:/app/other"], "NOT_FOUND", 4],
    ]);
  },
);

test("an option or argument that is malformed is refused by name", patience, async () => {
  await expectRefused([
    [["files", "ls"], "INVALID_ARGUMENT", 2],
    [["files", "ls", "devbox:/app", "--limit", "0"], "INVALID_ARGUMENT", 2],
    [["files", "ls", "devbox:/app", "--cursor", "altered"], "INVALID_ARGUMENT", 2],
    [["files", "ls", "devbox:/app", "--deadline", "soon"], "INVALID_ARGUMENT", 2],
    [["files", "ls", "devbox:/app", "--deadline", "48h"], "INVALID_ARGUMENT", 2],
    [["files", "cat", "devbox:/app/file.txt", "--offset", "-1"], "INVALID_ARGUMENT", 2],
    [["files", "cat", "devbox:/app/file.txt", "--length", "1.5"], "INVALID_ARGUMENT", 2],
    [put("devbox:/app/file.txt", "--if-match", "sha256:0"), "INVALID_ARGUMENT", 2],
    [put("devbox:/app/file.txt", "--jobs", "0"), "INVALID_ARGUMENT", 2],
    [["files", "ls", "devbox:/app", "--recursve"], "INVALID_ARGUMENT", 2],
    [["files", "lss", "devbox:/app"], "INVALID_ARGUMENT", 2],
    [["flies", "ls", "devbox:/app"], "INVALID_ARGUMENT", 2],
    [["memory", "search", ""], "INVALID_ARGUMENT", 2],
    [["memory", "search", "x", "--limit", "0"], "INVALID_ARGUMENT", 2],
    [["memory", "get", "devbox:/app/MEMORY.md", "--lines", "0"], "INVALID_ARGUMENT", 2],
    [["memory", "get", "devbox:/app/file.txt"], "POLICY_DENIED", 3],
    [["sessions", "open"], "INVALID_ARGUMENT", 2],
    [["nodes", "ls", "--state", "asleep"], "INVALID_ARGUMENT", 2],
    [["nodes", "ls", "--selector", "nonsense"], "INVALID_ARGUMENT", 2],
    [["nodes", "rename", "devbox", "Not An Alias"], "INVALID_ARGUMENT", 2],
    [["invite", "--ttl", "soon"], "INVALID_ARGUMENT", 2],
    [["node", "workspace", "add", "bad name", local.path], "INVALID_ARGUMENT", 2],
  ]);
});

test(
  "what is named and does not exist is not found, and a tool's arguments are checked",
  patience,
  async () => {
    await expectRefused([
      [["nodes", "show", "nobody"], "NOT_FOUND", 4],
      [["nodes", "revoke", "nobody"], "NOT_FOUND", 4],
      [["nodes", "rename", "nobody", "somebody"], "NOT_FOUND", 4],
      [["nodes", "call", "nobody", "exec"], "NOT_FOUND", 4],
      [["sessions", "show", "0000"], "NOT_FOUND", 4],
      [["sessions", "close", "0000"], "NOT_FOUND", 4],
      [["sessions", "open", "--workspace", "devbox:/none"], "NOT_FOUND", 4],
      [["approvals", "allow", "0000"], "NOT_FOUND", 4],
      [["tokens", "revoke", "0000"], "NOT_FOUND", 4],
      [["skills", "show", "none"], "NOT_FOUND", 4],
      [["skills", "read", "none"], "NOT_FOUND", 4],
      [["memory", "get", "devbox:/app/memory/none.md"], "NOT_FOUND", 4],
      [["memory", "search", "x", "--workspace", "devbox:/none"], "NOT_FOUND", 4],
      [["tools", "show", "devbox__none"], "NOT_FOUND", 4],
      [tool("devbox__none", "{}"), "NOT_FOUND", 4],
      [tool("devbox__read", "{"), "INVALID_ARGUMENT", 2],
      [tool("devbox__read", "[]"), "INVALID_ARGUMENT", 2],
      [tool("devbox__read", "{}"), "INVALID_ARGUMENT", 2],
      [tool("devbox__read", '{"path":5}'), "INVALID_ARGUMENT", 2],
      [tool("devbox__read", '{"path":"file.txt","pth":"x"}'), "INVALID_ARGUMENT", 2],
      [tool("devbox__read", '{"path":"../file.txt"}'), "PATH_INVALID", 2],
      [tool("devbox__exec", '{"command":""}'), "INVALID_ARGUMENT", 2],
      [tool("devbox__exec", '{"command":"true","cwd":"none"}'), "NOT_FOUND", 4],
    ]);
  },
);

test("for people the error is one line, with the next command below it", patience, async () => {
  for (const [args, error, hint] of [
    [["flies"], "unknown command 'flies' (INVALID_ARGUMENT)", "did you mean files?"],
    [["flies", "--help"], "unknown command 'flies' (INVALID_ARGUMENT)", "did you mean files?"],
    [["files", "lst", "-h"], "unknown command 'lst' (INVALID_ARGUMENT)", "did you mean ls?"],
    [
      ["files", "ls", "devbox:/app", "--recursve"],
      "unknown option '--recursve'",
      "did you mean --recursive?",
    ],
    [["files", "ls", "nobody:/app"], 'no node is "nobody" (NOT_FOUND)', "fairlead nodes ls"],
    [["tools", "show", "devbox__exce"], "devbox__exce", "devbox__exec"],
  ] as const) {
    const { stdout, stderr } = await gateway.cli(args);
    expect(stdout).toBe("");
    const [first = "", second = "", ...more] = stderr.split("\n");
    expect(first).toMatch(/^error: /);
    expect(first).toContain(error);
    expect(second).toMatch(/^hint: /);
    expect(second).toContain(hint);
    expect(more).toEqual([""]);
  }
});

test("after all of that nothing has changed", patience, async () => {
  expect(await workspace.entries()).toEqual(["MEMORY.md", "file.txt", "folder", "folder/in.txt"]);
  expect(await workspace.text("file.txt")).toBe("text");
  expect(await local.entries()).toEqual(["new.txt"]);
  expect(await gateway.json(["nodes", "ls"])).toMatchObject({
    nodes: [{ alias: "devbox", state: "online" }],
  });
  expect(await gateway.json(["sessions", "ls"])).toEqual({ sessions: [] });
  expect(await gateway.json(["approvals", "ls"])).toEqual({ approvals: [] });
  expect(`${gateway.logs()}${node.logs()}`).not.toContain('"INTERNAL"');
});

/** A second node in a stopped gateway's state, whose id begins as the first one's. */
function addTwin(
  home: string,
  { nodeId, digits }: { readonly nodeId: string; readonly digits: number },
): string {
  const database = new DatabaseSync(join(home, "gateway/state.db"));
  try {
    const row = database.prepare("SELECT * FROM nodes WHERE id = ?").get(nodeId) ?? {};
    const last = nodeId.slice(digits).replaceAll(/./g, (digit) => (digit === "0" ? "1" : "0"));
    const twin = { ...row, id: nodeId.slice(0, digits) + last, alias: "twin", key_digest: "sha256:twin" };
    const names = Object.keys(twin);
    database
      .prepare(`INSERT INTO nodes (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`)
      .run(...Object.values(twin));
    return twin.id;
  } finally {
    database.close();
  }
}

proves(
  "files.node-argument",
  "a node is named by alias, id or prefix; a name that fits none or several is told at once",
  patience,
  async () => {
    await using other = await startGateway();
    const ls = async (name: string, from: TestGateway = other) => {
      const startedAt = systemClock.now();
      const result = await from.cli(["files", "ls", `${name}:/app`, "--json"]);
      expect(systemClock.now() - startedAt).toBeLessThan(20_000);
      return result;
    };
    expect(faultOf(await ls("devbox"))).toMatchObject({
      exitCode: 4,
      code: "NOT_FOUND",
      message: expect.stringMatching(/no node/),
      hint: expect.stringContaining("fairlead invite"),
    });
    expect(faultOf(await ls("nobody", gateway))).toMatchObject({ exitCode: 4, code: "NOT_FOUND" });
    for (const name of ["devbox", node.nodeId, node.nodeId.slice(0, 6)])
      expect((await ls(name, gateway)).exitCode).toBe(0);

    await using lone = await startNode({ gateway: other, workspaces: { app: workspace.path } });
    await lone.kill("SIGTERM");
    await other.kill("SIGTERM");
    const twin = addTwin(other.home, { nodeId: lone.nodeId, digits: 9 });
    await other.restart();
    const ambiguous = faultOf(await ls(lone.nodeId.slice(0, 8)));
    expect(ambiguous).toMatchObject({ exitCode: 2, code: "INVALID_ARGUMENT" });
    for (const name of [lone.nodeId, "devbox", twin, "twin"])
      expect(JSON.stringify(ambiguous)).toContain(name);
    // Two digits more, and one is meant: it is offline, which is told as fast.
    expect(faultOf(await ls(lone.nodeId.slice(0, 10)))).toMatchObject({
      exitCode: 5,
      code: "WORKSPACE_ACCESS_UNAVAILABLE",
    });
  },
);

test(
  "a remote gateway without its token, and a gateway that is not there, are told apart",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const nobody = await runCli(["files", "ls", "devbox:/app", "--json"], { home: home.path });
    expect(faultOf(nobody)).toMatchObject({
      exitCode: 5,
      code: "GATEWAY_UNREACHABLE",
      hint: "fairlead gateway run",
    });
    expect(await home.entries()).toEqual([]);
  },
);
