import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Sessions, SessionsCallToolRequestSchema } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { proves } from "../../support/proves.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

async function toolNames(gateway: TestGateway): Promise<readonly string[]> {
  const { tools } = (await gateway.json(["tools", "ls"])) as {
    readonly tools: readonly { readonly name: string }[];
  };
  return tools.map(({ name }) => name);
}

const coreNames = (alias: string): readonly string[] =>
  ["exec", "list", "read", "write"].map((name) => `${alias}__${name}`);

proves(
  ["tools.node-tools-always-prefixed", "tools.offline-node-withdraws"],
  "tools come prefixed, stay named as others join, and go in one step with their node, with reason and since when",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    expect((await toolNames(gateway)).filter((name) => name.includes("__"))).toEqual([]);
    await using workspace = await makeTempWorkspace();
    await using devbox = await startNode({ gateway, profile: "full", workspaces: { app: workspace.path } });
    const before = await toolNames(gateway);
    expect(before.filter((name) => name.includes("__"))).toEqual(coreNames("devbox"));
    await using laptop = await startNode({
      gateway,
      alias: "laptop",
      profile: "full",
      workspaces: { app: workspace.path },
    });
    const both = await toolNames(gateway);
    expect(both).toEqual([...before, ...coreNames("laptop")].toSorted());
    await laptop.kill("SIGTERM");
    await expect.poll(() => toolNames(gateway), { timeout: 10_000 }).toEqual(before);
    const explained = await gateway.json(["tools", "explain", "laptop__exec"]);
    expect(explained).toMatchObject({ failed: "discovered" });
    expect(JSON.stringify(explained)).toMatch(/offline \(goodbye\) since 20\d\d-/);
    await devbox.kill("SIGTERM");
    await expect
      .poll(async () => (await toolNames(gateway)).filter((name) => name.includes("__")), { timeout: 10_000 })
      .toEqual([]);
    const gone = await gateway.cli(["tools", "call", "devbox__exec", "--args", '{"command":"true"}']);
    expect(gone).toMatchObject({ exitCode: 5 });
    expect(gone.stderr).toContain("NODE_OFFLINE");
  },
);

describe("commands", () => {
  proves(
    "tools.exec-streams-and-reports",
    "stream both outputs while they run, read what is sent or the end of file, and say how they ended and where",
    { timeout: 120_000 },
    async () => {
      await using gateway = await startGateway();
      await using workspace = await makeTempWorkspace({ "src/deep/": "" });
      await using _node = await startNode({
        gateway,
        profile: "full",
        exec: "full",
        workspaces: { app: `${workspace.path}:rw` },
      });
      await using connection = openGrpcClient({
        address: `unix:${await findAdminSocket(`${gateway.home}/gateway`)}`,
        security: "insecure",
      });
      const run = async (
        given: Record<string, string | number>,
        onOutput: (stream: string, text: string) => Promise<void> = async () => undefined,
      ): Promise<Record<string, unknown>> => {
        const request = create(SessionsCallToolRequestSchema, { name: "devbox__exec", arguments: given });
        for await (const { answer } of connection.client(Sessions).callTool(request)) {
          const part = answer?.part;
          if (part?.case === "output")
            await onOutput(part.value.stream, Buffer.from(part.value.data).toString());
          if (part?.case === "result") return part.value.details ?? {};
        }
        throw new Error("no result came");
      };
      const seen: string[] = [];
      const details = await run(
        {
          command: "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two >&2; exit 3",
          cwd: "src/deep",
        },
        async (stream, text) => {
          seen.push(`${stream}:${text.trim()}`);
          // It goes on only once its first output has come all the way.
          if (text.includes("one")) await workspace.write({ "src/deep/go": "" });
        },
      );
      expect(seen).toEqual(["stdout:one", "stderr:two"]);
      expect(details).toMatchObject({ exitCode: 3, timedOut: false, cwd: "/app/src/deep" });
      expect(details["durationMs"]).toBeGreaterThan(0);
      let echoed = "";
      const collect = async (_stream: string, text: string): Promise<void> => {
        echoed += text;
      };
      await run({ command: "cat", stdin: "sent" }, collect);
      expect(echoed).toBe("sent");
      echoed = "";
      expect(await run({ command: "cat; echo end" }, collect)).toMatchObject({ exitCode: 0, cwd: "/app" });
      expect(echoed).toBe("end\n");
      expect(await run({ command: "kill -9 $$" })).toMatchObject({ signal: "SIGKILL", timedOut: false });
      const late = await run({ command: "sleep 60", timeoutMs: 300 });
      expect(late).toMatchObject({ timedOut: true });
      expect(late["durationMs"]).toBeLessThan(5_000);
    },
  );
});

const denials = (text: string): unknown => (JSON.parse(text) as { readonly error: unknown }).error;

proves(
  ["policy.both-sides-must-agree", "policy.nothing-by-default"],
  "commands and writes need the word of both sides, and the refusal names the side and the rule",
  { timeout: 240_000 },
  async () => {
    await using gateway = await startGateway();
    for (const [alias, gatewayAllows, nodeAllows] of [
      ["neither", false, false],
      ["gw-only", true, false],
      ["node-only", false, true],
      ["both", true, true],
    ] as const) {
      await using workspace = await makeTempWorkspace({ "a.txt": "one\n" });
      await using _node = await startNode({
        gateway,
        alias,
        workspaces: { app: nodeAllows ? `${workspace.path}:rw` : workspace.path },
        ...(gatewayAllows ? { profile: "full" } : {}),
        ...(nodeAllows ? { exec: "full" } : {}),
      });
      const exec = await gateway.cli([
        "tools",
        "call",
        `${alias}__exec`,
        "--json",
        "--args",
        '{"command":"touch ran"}',
      ]);
      const write = await gateway.cli([
        "tools",
        "call",
        `${alias}__write`,
        "--json",
        "--args",
        '{"path":"new.txt","content":"x"}',
      ]);
      const look = await gateway.cli(["tools", "call", `${alias}__read`, "--args", '{"path":"a.txt"}']);
      expect(look).toMatchObject({ exitCode: 0, stdout: "one\n" });
      const done = gatewayAllows && nodeAllows;
      expect([exec.exitCode, write.exitCode]).toEqual(done ? [0, 0] : [3, 3]);
      expect(await workspace.has("ran")).toBe(done);
      expect(await workspace.has("new.txt")).toBe(done);
      if (done) continue;
      const side = gatewayAllows ? "node" : "gateway";
      expect(denials(exec.stdout)).toMatchObject({
        code: "POLICY_DENIED",
        details: { side, rule: gatewayAllows ? "exec.mode" : "profile.read" },
      });
      expect(denials(write.stdout)).toMatchObject({
        code: "POLICY_DENIED",
        details: gatewayAllows ? { side } : { side, rule: "profile.read" },
      });
      expect(JSON.stringify(denials(write.stdout))).toMatch(/"rule":"[a-z_.]+"/);
    }
  },
);

test("a command that waits for a person runs once an operator allows it", { timeout: 120_000 }, async () => {
  await using gateway = await startGateway();
  await using workspace = await makeTempWorkspace();
  await using _node = await startNode({
    gateway,
    profile: "work",
    exec: "full",
    workspaces: { app: `${workspace.path}:rw` },
  });
  const call = ["tools", "call", "devbox__exec", "--args", '{"command":"touch ran"}'];
  const refused = await gateway.cli([...call, "--no-wait", "--json"]);
  expect(refused.exitCode).toBe(3);
  expect(denials(refused.stdout)).toMatchObject({ code: "APPROVAL_REQUIRED" });
  const list = async (): Promise<readonly { readonly id: string }[]> =>
    ((await gateway.json(["approvals", "ls"])) as { readonly approvals: readonly { readonly id: string }[] })
      .approvals;
  // The question that is open is not asked beside itself: once it is answered the next call asks anew.
  for (const { id } of await list()) await gateway.json(["approvals", "deny", id]);
  const waiting = gateway.cli(call);
  await expect.poll(async () => (await list()).length, { timeout: 20_000 }).toBe(1);
  for (const { id } of await list()) await gateway.json(["approvals", "allow", id]);
  expect(await waiting).toMatchObject({ exitCode: 0 });
  expect(await workspace.has("ran")).toBe(true);
});
