import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CliFault, faultOf, memberOf } from "../support/cli-fault.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { startNode, type TestNode } from "../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../support/temp-workspace.ts";

// Both sides must say yes. Whichever says no is named, and nothing has changed on the machine.
const patience = { timeout: 120_000 };

let stack: AsyncDisposableStack;
let gateway: TestGateway;
let workspace: TempWorkspace;
let local: TempFolder;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  gateway = stack.use(await startGateway());
  workspace = stack.use(await makeTempWorkspace({ "old.txt": "old", "MEMORY.md": "# Notes\nAsk Ada.\n" }));
  local = stack.use(await makeTempFolder());
  await writeFile(local.join("new.txt"), "new");
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

interface Machine {
  readonly alias: string;
  readonly profile?: "read" | "work" | "full";
  readonly writable?: boolean;
  readonly exec?: "allow-list" | "ask" | "full";
}

/** The same folder every time: only what machine and gateway say of it differs. */
async function startMachine({ alias, profile, writable = false, exec }: Machine): Promise<TestNode> {
  return await startNode({
    gateway,
    alias,
    workspaces: { app: writable ? `${workspace.path}:rw` : workspace.path },
    ...(profile === undefined ? {} : { profile }),
    ...(exec === undefined ? {} : { exec }),
  });
}

async function put(alias: string, path: string): Promise<CliFault> {
  return faultOf(
    await gateway.cli([
      "files",
      "put",
      local.join("new.txt"),
      `${alias}:/app/${path}`,
      "--json",
      "--if-match",
      "any",
    ]),
  );
}

async function call(alias: string, tool: string, args: object): Promise<CliFault> {
  const argv = ["tools", "call", `${alias}__${tool}`, "--args", JSON.stringify(args), "--json", "--no-wait"];
  return faultOf(await gateway.cli(argv));
}

const command = { command: "echo ran > ran.txt" };

async function nothingChanged(): Promise<void> {
  expect(await workspace.entries()).toEqual(["MEMORY.md", "old.txt"]);
  expect(await workspace.text("old.txt")).toBe("old");
}

test(
  "a machine that was paired with no word more shows its files, and takes no write and no command",
  patience,
  async () => {
    await using _ = await startMachine({ alias: "bare" });
    expect((await gateway.cli(["files", "cat", "bare:/app/old.txt"])).stdout).toBe("old");
    expect((await gateway.cli(["memory", "get", "bare:/app/MEMORY.md", "--from", "2"])).stdout).toBe(
      "Ask Ada.\n",
    );
    const refusals = [
      await put("bare", "old.txt"),
      await put("bare", "folder/new.txt"),
      await call("bare", "write", { path: "new.txt", content: "new" }),
      await call("bare", "exec", command),
    ];
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({
        exitCode: 3,
        code: "POLICY_DENIED",
        hint: expect.stringMatching(/fairlead /),
        details: { side: "gateway", rule: "profile.read" },
      });
    }
    for (const args of [
      ["mkdir", "bare:/app/folder"],
      ["rm", "bare:/app/old.txt"],
      ["mv", "bare:/app/old.txt", "bare:/app/moved.txt"],
    ]) {
      expect(faultOf(await gateway.cli(["files", ...args, "--json"]))).toMatchObject({
        exitCode: 3,
        code: "POLICY_DENIED",
        details: { side: "gateway" },
      });
    }
    const people = await gateway.cli(["files", "put", local.join("new.txt"), "bare:/app/new.txt"]);
    expect(people).toMatchObject({ exitCode: 3, stdout: "" });
    expect(people.stderr).toMatch(/^error: .*bare.* \(POLICY_DENIED\)\nhint: .*fairlead invite.*\n$/);
    await nothingChanged();
  },
);

test(
  "a machine that exports read only and runs nothing is obeyed, whatever its profile grants",
  patience,
  async () => {
    await using _ = await startMachine({ alias: "shy", profile: "full" });
    const write = await put("shy", "old.txt");
    expect(write).toMatchObject({ exitCode: 3, code: "POLICY_DENIED", details: { side: "node" } });
    expect(write.hint).toMatch(/\S/);
    expect(await call("shy", "write", { path: "new.txt", content: "new" })).toMatchObject({
      exitCode: 3,
      code: "POLICY_DENIED",
      details: { side: "node" },
    });
    expect(await call("shy", "exec", command)).toMatchObject({
      exitCode: 3,
      code: "POLICY_DENIED",
      details: { side: "node" },
      hint: expect.stringMatching(/\S/),
    });
    await nothingChanged();
  },
);

test("a machine that offers everything is still read only under the profile read", patience, async () => {
  await using _ = await startMachine({ alias: "open", profile: "read", writable: true, exec: "full" });
  const gatewaySaysNo = {
    exitCode: 3,
    code: "POLICY_DENIED",
    details: { side: "gateway", rule: "profile.read" },
  };
  expect(await put("open", "old.txt")).toMatchObject(gatewaySaysNo);
  expect(await call("open", "exec", command)).toMatchObject(gatewaySaysNo);
  await nothingChanged();
});

test("both sides say yes: the write and the command happen", patience, async () => {
  await using _ = await startMachine({ alias: "both", profile: "full", writable: true, exec: "full" });
  const stored = await gateway.json(["files", "put", local.join("new.txt"), "both:/app/new.txt"]);
  expect(stored).toMatchObject({ filesSent: 1, bytesSent: 3, failed: [] });
  const ran = await gateway.json([
    "tools",
    "call",
    "both__exec",
    "--args",
    JSON.stringify(command),
    "--no-wait",
  ]);
  expect(memberOf(ran, "details")).toMatchObject({ exitCode: 0 });
  expect(await workspace.entries()).toEqual(["MEMORY.md", "new.txt", "old.txt", "ran.txt"]);
  for (const name of ["new.txt", "ran.txt"]) await workspace.remove(name);
});

test("what neither side opens is told by both in turn: secrets stay on the machine", patience, async () => {
  await workspace.write({ ".env": "TOKEN=1", "deep/.ssh/id_ed25519": "key" });
  await using _ = await startMachine({ alias: "vault", profile: "full", writable: true, exec: "full" });
  for (const path of [".env", "deep/.ssh/id_ed25519"]) {
    expect(faultOf(await gateway.cli(["files", "cat", `vault:/app/${path}`, "--json"]))).toMatchObject({
      exitCode: 3,
      code: "POLICY_DENIED",
    });
    expect(await put("vault", path)).toMatchObject({ exitCode: 3, code: "POLICY_DENIED" });
  }
  const listed = JSON.stringify(await gateway.json(["files", "ls", "vault:/app", "--recursive"]));
  expect(listed).not.toContain(".env");
  expect(listed).not.toContain("id_ed25519");
  expect(await workspace.text(".env")).toBe("TOKEN=1");
  for (const name of [".env", "deep"]) await workspace.remove(name);
});
