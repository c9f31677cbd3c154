import { mkdir, writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Sessions } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { proves } from "../../support/proves.ts";
import { startSessionHouse, type SessionHouse } from "../../support/session-house.ts";
import { spawnProgram, type Program } from "../../support/spawn-program.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

let house: SessionHouse;

beforeAll(async () => {
  house = await startSessionHouse({ files: { "a.txt": "one\n" } });
}, 120_000);
afterAll(async () => house[Symbol.asyncDispose]());

interface Shown {
  readonly id: string;
  readonly agent: string;
  readonly workspace: string;
  readonly state: string;
  readonly snapshot: string;
  readonly surface: string;
}

proves(
  "sessions.open",
  "an opened session is shown whole, and its id works at once everywhere",
  { timeout: 120_000 },
  async () => {
    const { gateway } = house;
    const args = ["sessions", "open", "--agent", "coder", "--workspace", "devbox:/app"];
    const shown = (await gateway.json(args)) as Shown;
    const hash: unknown = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);
    expect(shown).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f]{20}$/) as unknown,
      agent: "coder",
      workspace: "devbox:/app",
      state: "active",
      snapshot: hash,
      surface: hash,
    });
    const { stdout } = await gateway.cli(args);
    for (const word of ["id:", "agent: coder", "workspace: devbox:/app", "state: active", "sha256:"]) {
      expect(stdout).toContain(word);
    }
    const session = ["--session", shown.id];
    const called = ["tools", "call", "read", ...session, "--args", '{"path":"a.txt"}'];
    expect(await gateway.cli(called)).toMatchObject({ exitCode: 0, stdout: "one\n" });
    expect(JSON.stringify(await gateway.json(["tools", "ls", ...session]))).toContain('"exec"');
    expect(await gateway.json(["tools", "explain", "exec", ...session])).toMatchObject({ failed: null });
    expect(await gateway.json(["skills", "ls", ...session])).toBeDefined();
    await using connection = openGrpcClient({
      address: `unix:${await findAdminSocket(`${gateway.home}/gateway`)}`,
      security: "insecure",
    });
    const { tools, surface } = await connection.client(Sessions).listTools({ session: shown.id });
    expect(surface).toBe(shown.surface);
    await using mcp = talk(["mcp", ...session], gateway.home);
    expect(await mcp.ask("tools/list", {})).toMatchObject({
      result: { tools: tools.map(({ name }) => ({ name })) },
    });
  },
);

proves(
  "sessions.open-refused",
  "a session that cannot be opened exits by its reason and leaves nothing behind",
  { timeout: 120_000 },
  async () => {
    await using home = await makeTempFolder();
    await configure(home, "agents:\n  coder: {}\n  closed:\n    deny: [list]\n");
    await using gateway = await startGateway({ home: home.path });
    await using node = await startNode({ gateway, workspaces: { app: house.workspace.path } });
    const open = async (
      agent: string,
      workspace: string,
    ): Promise<{ exitCode: number | null; error: unknown }> => {
      const args = ["sessions", "open", "--agent", agent, "--workspace", workspace, "--json"];
      const { exitCode, json } = await gateway.cli(args);
      return { exitCode, error: (json as { readonly error?: unknown }).error };
    };
    expect(await open("coder", "nobody:/app")).toMatchObject({ exitCode: 4, error: { code: "NOT_FOUND" } });
    expect(await open("coder", "devbox:/none")).toMatchObject({ exitCode: 4, error: { code: "NOT_FOUND" } });
    expect(await open("stranger", "devbox:/app")).toMatchObject({
      exitCode: 4,
      error: { code: "NOT_FOUND" },
    });
    expect(await open("closed", "devbox:/app")).toMatchObject({
      exitCode: 3,
      error: { code: "POLICY_DENIED", details: { rule: "agents.closed.deny", side: "gateway" } },
    });
    await node.kill("SIGTERM");
    await expect
      .poll(() => open("coder", "devbox:/app"), { timeout: 10_000 })
      .toMatchObject({
        exitCode: 5,
        error: {
          code: "WORKSPACE_ACCESS_UNAVAILABLE",
          details: { reason: "node_offline", since: expect.stringMatching(/^20\d\d-/) as unknown },
        },
      });
    expect(await gateway.json(["sessions", "ls", "--all"])).toEqual({ sessions: [] });
  },
);

proves(
  "tools.explain-six-states",
  "the six states are told in order with evidence, with the first that failed, why, and one next command",
  { timeout: 120_000 },
  async () => {
    const { gateway, sessionId } = house;
    const explain = async (
      name: string,
      more: readonly string[] = [],
    ): Promise<{ text: string; json: unknown }> => ({
      text: (await gateway.cli(["tools", "explain", name, ...more])).stdout,
      json: await gateway.json(["tools", "explain", name, ...more]),
    });
    await gateway.cli(["tools", "call", "exec", "--session", sessionId, "--args", '{"command":"true"}']);
    const good = await explain("exec", ["--session", sessionId]);
    const order = ["installed", "discovered", "registered", "exposed", "called", "executed"];
    expect(
      good.text
        .split("\n")
        .slice(0, 6)
        .map((line) => line.split(":")[0]),
    ).toEqual(order);
    expect(good.json).toMatchObject({
      name: "exec",
      failed: null,
      states: order.map((state) => ({
        state,
        holds: "yes",
        evidence: expect.stringMatching(/\w/) as unknown,
      })),
    });
    await using _reader = await startNode({
      gateway,
      alias: "reader",
      workspaces: { app: house.workspace.path },
    });
    const denied = await explain("reader__exec");
    expect(denied.json).toMatchObject({
      failed: "exposed",
      reason: expect.stringContaining("profile.read") as unknown,
      hint: expect.stringContaining("fairlead invite") as unknown,
      states: [{ holds: "yes" }, { holds: "yes" }, { holds: "yes" }, { state: "exposed", holds: "no" }],
    });
    for (const word of ["failed: exposed", "why: ", "next: "]) expect(denied.text).toContain(word);
    expect((await explain("nobody__exec")).json).toMatchObject({ failed: "installed" });
  },
);

proves(
  "policy.refused-call-says-what-next",
  "a call without its approval names code, approval and the next command, and exits 3",
  { timeout: 180_000 },
  async () => {
    await using home = await makeTempFolder();
    await configure(home, "limits:\n  approvalWaitMs: 8000\n");
    await using gateway = await startGateway({ home: home.path });
    await using _node = await startNode({
      gateway,
      profile: "work",
      exec: "full",
      workspaces: { app: house.workspace.path },
    });
    const call = ["tools", "call", "devbox__exec", "--args", '{"command":"touch ran"}'];
    const approvals = async (): Promise<readonly { readonly id: string; readonly state: string }[]> =>
      (
        (await gateway.json(["approvals", "ls"])) as {
          readonly approvals: readonly { id: string; state: string }[];
        }
      ).approvals;
    const required = await gateway.cli([...call, "--no-wait"]);
    const [asked] = await approvals();
    expect(required.exitCode).toBe(3);
    expect(required.stderr).toMatch(/^error: .* \(APPROVAL_REQUIRED\)$/m);
    expect(required.stderr).toContain(`hint: fairlead approvals allow ${asked?.id ?? "?"}`);
    // The question that is open is not asked beside itself: once it is answered the next call asks anew.
    await gateway.json(["approvals", "deny", asked?.id ?? "?"]);
    const denying = gateway.cli(call);
    let waiting = "";
    await expect
      .poll(async () => (waiting = (await approvals()).find(({ id }) => id !== asked?.id)?.id ?? ""), {
        timeout: 7_000,
      })
      .not.toBe("");
    await gateway.json(["approvals", "deny", waiting]);
    const denied = await denying;
    expect(denied.exitCode).toBe(3);
    expect(denied.stderr).toMatch(/^error: .* \(APPROVAL_DENIED\)$/m);
    expect(denied.stderr).toContain(`hint: fairlead approvals show ${waiting}`);
    const expired = await gateway.cli(call);
    expect(expired.exitCode).toBe(3);
    expect(expired.stderr).toMatch(/^error: .* \(APPROVAL_EXPIRED\)$/m);
    expect(expired.stderr).toMatch(/hint: .*fairlead approvals show [0-9a-f]{16}/);
    expect(await house.workspace.has("ran")).toBe(false);
  },
);

async function configure(home: TempFolder, text: string): Promise<void> {
  await mkdir(home.join("gateway"), { mode: 0o700 });
  await writeFile(home.join("gateway", "config.yaml"), text);
}

/** A program that speaks MCP over its standard streams. */
interface Talk extends AsyncDisposable {
  readonly program: Program;
  /** Sends a request and waits for its answer. */
  ask(method: string, params: object): Promise<unknown>;
  /** Writes a line as it is. */
  write(line: string): void;
  end(): void;
}

function talk(args: readonly string[], home: string): Talk {
  const program = spawnProgram(args, { home, keepInput: true });
  let last = 0;
  const send = (message: object): void =>
    program.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const answer = async (id: number): Promise<unknown> =>
    JSON.parse(
      await program.waitForLine((line) => (JSON.parse(line) as { readonly id?: unknown }).id === id),
    );
  const handshake = (async () => {
    const client = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "t", version: "0" },
    };
    send({ id: 0, method: "initialize", params: client });
    await answer(0);
    send({ method: "notifications/initialized" });
  })();
  handshake.catch(() => undefined);
  return {
    program,
    ask: async (method, params) => {
      await handshake;
      last += 1;
      send({ id: last, method, params });
      return await answer(last);
    },
    write: (line) => program.write(line),
    end: () => program.endInput(),
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}

proves(
  "sessions.mcp-stdio-command",
  "the command writes messages only, answers a bad line and goes on, and at the end of input cancels and exits 0",
  { timeout: 60_000 },
  async () => {
    await using mcp = talk(["mcp", "--session", house.sessionId], house.gateway.home);
    expect(await mcp.ask("tools/list", {})).toHaveProperty("result.tools");
    mcp.write("{ no json\n");
    const refused = JSON.parse(await mcp.program.waitForLine((line) => line.includes("-32700"))) as unknown;
    expect(refused).toMatchObject({ id: null, error: { code: -32_700 } });
    expect(await mcp.ask("tools/call", { name: "read", arguments: { path: "a.txt" } })).toMatchObject({
      result: { content: [{ type: "text", text: "one\n" }] },
    });
    const word = `6${process.hrtime.bigint()}`;
    void mcp
      .ask("tools/call", { name: "exec", arguments: { command: `sleep ${word}; true` } })
      .catch(() => undefined);
    await expect.poll(() => findProcesses(word).length, { timeout: 10_000 }).toBeGreaterThan(0);
    const endedAt = performance.now();
    mcp.end();
    expect(await mcp.program.ended).toMatchObject({ exitCode: 0 });
    expect(performance.now() - endedAt).toBeLessThan(2_000);
    await expect.poll(() => findProcesses(word), { timeout: 5_000 }).toEqual([]);
    const lines = mcp.program
      .stdout()
      .split("\n")
      .filter((line) => line !== "");
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
  },
);

proves(
  "sessions.mcp-stdio-without-gateway",
  "without a gateway the command exits 5 at once and says so; a gateway that restarts is found again",
  { timeout: 120_000 },
  async () => {
    await using home = await makeTempFolder();
    const startedAt = performance.now();
    await using alone = talk(["mcp", "--session", "0123"], home.path);
    expect(await alone.program.ended).toMatchObject({ exitCode: 5 });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(alone.program.stderr()).toMatch(/GATEWAY_UNREACHABLE[^]*hint: fairlead gateway run/);
    expect(alone.program.stdout()).toBe("");
    await using mcp = talk(["mcp", "--session", house.sessionId], house.gateway.home);
    expect(await mcp.ask("tools/list", {})).toHaveProperty("result.tools");
    await house.gateway.kill("SIGKILL");
    await house.gateway.restart();
    const works = async (): Promise<unknown> =>
      await mcp.ask("tools/call", { name: "read", arguments: { path: "a.txt" } });
    await expect.poll(works, { timeout: 40_000, interval: 500 }).toMatchObject({
      result: { content: [{ type: "text", text: "one\n" }] },
    });
  },
);
