import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { proves } from "../support/proves.ts";
import { readLiveFiles } from "../support/read-live-files.ts";
import { type CliResult, runCli } from "../support/run-cli.ts";
import { type ProgramEnd, spawnProgram } from "../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { inviteCode, startNode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

// Each of these starts several programs: the machine may be busy with other tests.
const patience = { timeout: 120_000 };

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
});

interface ListedNode {
  readonly id: string;
  readonly alias: string;
  readonly state: string;
}

async function listNodes(...args: readonly string[]): Promise<readonly ListedNode[]> {
  const { nodes } = (await gateway.json(["nodes", "ls", ...args])) as {
    readonly nodes: readonly ListedNode[];
  };
  return nodes;
}

/** Runs `node join`, waits for `ready`, and ends it. */
async function joinOnce(home: string, args: readonly string[]): Promise<{ stdout: string; end: ProgramEnd }> {
  await using program = spawnProgram(["node", "join", ...args], { home });
  await program.waitForLine((line) => line === "ready");
  const end = await program.kill("SIGTERM");
  return { stdout: program.stdout(), end };
}

/** The code of an error that a command printed as JSON, and how it exited. */
function failed({ exitCode, json }: CliResult): unknown {
  const { error } = json as { readonly error: { readonly code: string; readonly hint?: string } };
  return { exitCode, code: error.code, hint: error.hint };
}

/** A server that takes connections and says nothing. */
async function listen(): Promise<{ readonly address: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const { address, ...server } = await listen();
  await server[Symbol.asyncDispose]();
  return Number(address.split(":")[1]);
}

async function textsBelow(dir: string): Promise<string> {
  return (await readLiveFiles(dir)).map((file) => file.bytes.toString("latin1")).join("\n");
}

proves(
  ["pairing.join-enrols", "pairing.identity-private"],
  "a machine with a fresh code is online under its alias, and its identity is its owner's alone",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--name", "fresh"]);
    await using program = spawnProgram(["node", "join", code], { home: home.path });
    await program.waitForLine((line) => line === "ready");
    expect(await listNodes()).toContainEqual(expect.objectContaining({ alias: "fresh", state: "online" }));
    expect((await stat(home.join("node/identity"))).mode & 0o777).toBe(0o700);
    expect((await readdir(home.join("node/identity"))).toSorted()).toEqual([
      "cert.pem",
      "gateway.json",
      "key.pem",
    ]);
    for (const file of ["key.pem", "cert.pem", "gateway.json"]) {
      expect((await stat(home.join("node/identity", file))).mode & 0o777).toBe(0o600);
    }
    await program.kill("SIGTERM");
    const { chmod } = await import("node:fs/promises");
    await chmod(home.join("node/identity/key.pem"), 0o644);
    const run = await runCli(["node", "run", "--json"], { home: home.path });
    expect(failed(run)).toMatchObject({
      exitCode: 3,
      code: "POLICY_DENIED",
      hint: expect.stringContaining("chmod"),
    });
    expect(run.json).toMatchObject({ error: { details: { side: "node" } } });
  },
);

proves(
  "pairing.invite-command-works",
  "the printed command joins another home as it stands",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const made = await gateway.json(["invite", "--name", "pasted", "--ttl", "5m", "--uses", "1"]);
    expect(made).toEqual({
      code: expect.stringMatching(/^flj_/),
      command: expect.stringMatching(/^fairlead node join flj_\S+$/),
      expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      uses: 1,
      requireApproval: false,
      warnings: expect.any(Array),
    });
    const printed = await gateway.cli(["invite", "--name", "pasted-two"]);
    const [, command = ""] = /^command: fairlead node join (\S+)$/m.exec(printed.stdout) ?? [];
    const { stdout, end } = await joinOnce(home.path, [command]);
    expect(stdout).toContain("joined as pasted-two");
    expect(end.exitCode).toBe(0);
  },
);

proves(
  "pairing.code-on-stdin",
  "a code on standard input leaves no trace of its secret",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--name", "quiet"]);
    await using program = spawnProgram(["node", "join", "-"], { home: home.path, stdin: code });
    await program.waitForLine((line) => line === "ready");
    const secret = Buffer.from(code.slice("flj_".length), "base64url").subarray(2, 18);
    const spellings = [code, secret.toString("hex"), secret.toString("base64url"), secret.toString("latin1")];
    const written = [
      await readFile(`/proc/${program.pid}/cmdline`, "latin1"),
      program.stdout(),
      program.stderr(),
      gateway.logs(),
      await textsBelow(home.path),
      await textsBelow(gateway.home),
    ].join("\n");
    for (const spelling of spellings) expect(written).not.toContain(spelling);
  },
);

proves("pairing.exports-from-first-link", "an export is listed no later than `ready`", patience, async () => {
  await using workspace = await makeTempWorkspace({ "a.txt": "x" });
  await using _ = await startNode({ gateway, alias: "exporter", workspaces: { app: workspace.path } });
  expect(await gateway.json(["workspaces", "ls"])).toMatchObject({
    workspaces: expect.arrayContaining([
      expect.objectContaining({ node: "exporter", name: "app", state: "available", writable: false }),
    ]),
  });
});

proves("pairing.invite-bad-input", "an invite with wrong input makes no code", patience, async () => {
  const refuse = async (...args: readonly string[]): Promise<unknown> =>
    failed(await gateway.cli(["invite", ...args, "--json"]));
  await using _ = await startNode({ gateway, alias: "taken" });
  expect(await refuse("--uses", "0")).toMatchObject({ exitCode: 2, code: "INVALID_ARGUMENT" });
  expect(await refuse("--ttl", "-5m")).toMatchObject({ exitCode: 2, code: "INVALID_ARGUMENT" });
  for (const label of ["novalue", "=x", `k=${"x".repeat(64)}`]) {
    expect(await refuse("--label", label)).toMatchObject({ exitCode: 2, code: "INVALID_ARGUMENT" });
  }
  expect(await refuse("--profile", "emperor")).toMatchObject({ exitCode: 4, code: "NOT_FOUND" });
  expect(await refuse("--name", "taken")).toMatchObject({ exitCode: 6, code: "ALREADY_EXISTS" });
});

proves(
  "pairing.join-twice-refused",
  "a home that has an identity joins no second time",
  patience,
  async () => {
    await using node = await startNode({ gateway, alias: "settled" });
    await node.kill("SIGTERM");
    const before = await readFile(join(node.home, "node/identity/key.pem"), "utf8");
    const code = await inviteCode(gateway, ["--name", "second"]);
    const again = await node.cli(["node", "join", code, "--json"]);
    expect(failed(again)).toMatchObject({ exitCode: 6, code: "ALREADY_EXISTS" });
    expect(again.stdout).toContain("settled");
    expect(again.stdout).toContain(gateway.link);
    expect(await readFile(join(node.home, "node/identity/key.pem"), "utf8")).toBe(before);
    await using elsewhere = await makeTempFolder();
    expect((await joinOnce(elsewhere.path, [code])).stdout).toContain("joined as second");
  },
);

proves(
  "pairing.revoke-offline-and-again",
  "a node is revoked whether or not it is there, and once",
  patience,
  async () => {
    await using one = await startNode({ gateway, alias: "gone-one" });
    await using two = await startNode({ gateway, alias: "gone-two" });
    await one.kill("SIGKILL");
    await two.kill("SIGKILL");
    const first = await gateway.json(["nodes", "revoke", "gone-one"]);
    expect(first).toMatchObject({ id: one.nodeId, state: "revoked", already: false });
    const { since } = first as { readonly since: string };
    const again = await gateway.cli(["nodes", "revoke", one.nodeId]);
    expect(again.exitCode).toBe(0);
    expect(again.stdout).toContain(since);
    expect(await gateway.json(["nodes", "revoke", two.nodeId.slice(0, 8)])).toMatchObject({ already: false });
    expect((await gateway.cli(["nodes", "revoke", "nobody"])).exitCode).toBe(4);
  },
);

proves(
  "pairing.leave-erases",
  "leaving ends link and identity, also when the gateway cannot be told",
  patience,
  async () => {
    await using workspace = await makeTempWorkspace({ "a.txt": "x" });
    await using node = await startNode({ gateway, alias: "leaver", workspaces: { app: workspace.path } });
    const config = await readFile(join(node.home, "node/config.yaml"), "utf8");
    const left = await node.cli(["node", "leave", "--json"]);
    expect({ exitCode: left.exitCode, json: left.json }).toMatchObject({ exitCode: 0, json: { told: true } });
    await node.ended;
    expect(await listNodes("--state", "revoked")).toContainEqual(
      expect.objectContaining({ id: node.nodeId, state: "revoked" }),
    );
    const asked = await gateway.cli(["nodes", "outcome", "leaver", randomUUID(), "--json"]);
    expect(asked.json).toMatchObject({ error: { code: "OUTCOME_UNKNOWN", details: { reason: "revoked" } } });
    await expect(stat(join(node.home, "node/identity"))).rejects.toThrow(/ENOENT/);
    expect(await readFile(join(node.home, "node/config.yaml"), "utf8")).toBe(config);
    expect(await workspace.text("a.txt")).toBe("x");
    // Nor does what commands said and how calls ended stay.
    const stays = (await readdir(join(node.home, "node"))).filter((name) => /^(jobs|ledger)/.test(name));
    expect(stays).toEqual([]);

    await using other = await startGateway();
    await using stranded = await startNode({ gateway: other, alias: "stranded" });
    await stranded.kill("SIGTERM");
    await other.kill("SIGKILL");
    const alone = await stranded.cli(["node", "leave"]);
    expect(alone.exitCode).toBe(7);
    expect(alone.stdout).toContain(`fairlead nodes revoke ${stranded.nodeId}`);
    await expect(stat(join(stranded.home, "node/identity"))).rejects.toThrow(/ENOENT/);
  },
);

proves(
  "pairing.gateway-unreachable-at-join",
  "a join that reaches nobody says so, and the code stays good",
  patience,
  async () => {
    await using silent = await listen();
    const port = await freePort();
    const link = `127.0.0.1:${port}`;
    await using other = await startGateway({
      args: ["--listen", link, "--advertise", link, "--advertise", silent.address],
    });
    await using home = await makeTempFolder();
    const code = await inviteCode(other, ["--name", "late"]);
    await other.kill("SIGKILL");
    const startedAt = systemClock.now();
    const result = await runCli(["node", "join", code, "--json"], { home: home.path });
    expect(systemClock.now() - startedAt).toBeLessThan(25_000);
    expect(failed(result)).toMatchObject({ exitCode: 5, code: "GATEWAY_UNREACHABLE" });
    for (const address of [silent.address, link]) expect(result.stdout).toContain(address);
    expect(result.stdout).toMatch(/refused/);
    await expect(stat(home.join("node/identity"))).rejects.toThrow(/ENOENT/);
    await other.restart();
    expect((await joinOnce(home.path, [code])).stdout).toContain("joined as late");
  },
);

test("the alias that a machine wishes for is its own when nobody named one", patience, async () => {
  await using home = await makeTempFolder();
  const code = await inviteCode(gateway);
  expect((await joinOnce(home.path, [code, "--name", "wisher"])).stdout).toContain("joined as wisher,");
  await using other = await makeTempFolder();
  const named = await inviteCode(gateway, ["--name", "given"]);
  const { stdout } = await joinOnce(other.path, [named, "--name", "wanted"]);
  expect(stdout).toContain("joined as given (not wanted)");
});
