import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ToolsCheckCallRequestSchema } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openSessionKit, type KitNodeOptions } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";

const operator = { agent: "operator" };

interface Refusal {
  readonly node: KitNodeOptions;
  readonly given: JsonObject;
  readonly code: string;
  readonly rule?: string;
}

const refusals: Readonly<Record<string, Refusal>> = {
  "a command on a machine that runs none": {
    node: { exec: "off" },
    given: { command: "true" },
    code: "POLICY_DENIED",
    rule: "exec.mode",
  },
  "a command that is not on the machine's list": {
    node: { exec: "allow-list", allow: ["git status"] },
    given: { command: ["rm", "x"] },
    code: "POLICY_DENIED",
    rule: "exec.allow",
  },
  "a command in a folder that is not there": {
    node: { exec: "ask" },
    given: { command: "true", cwd: "none" },
    code: "NOT_FOUND",
  },
  "a workspace that the machine does not export": {
    node: { exec: "ask" },
    given: { command: "true", workspace: "other" },
    code: "NOT_FOUND",
  },
  "arguments that do not fit": {
    node: { exec: "ask" },
    given: { command: [] },
    code: "INVALID_ARGUMENT",
  },
};

for (const [what, { node, given, code, rule }] of Object.entries(refusals)) {
  test(`nobody is asked to allow what would be refused all the same: ${what}`, async () => {
    await using kit = await openSessionKit();
    await kit.addNode({ profile: "work", ...node });
    const call = callTool(kit.tools, operator, { name: "devbox__exec", arguments: given, noWait: true });
    const fault = await faultOf(call);
    expect(fault.code).toBe(code);
    if (rule !== undefined) expect(fault.details).toMatchObject({ side: "node", rule });
    expect(await kit.approvals.list({ all: true })).toEqual([]);
  });
}

test("nobody is asked while the machine is away, and one who is asked may still be told no by the machine", async () => {
  await using kit = await openSessionKit();
  const node = await kit.addNode({ profile: "work", exec: "ask" });
  const { id } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
  const caller = await kit.sessions.caller(id);
  const given = { name: "exec", arguments: { command: "touch ran" } };
  node.disconnect();
  expect((await faultOf(callTool(kit.tools, caller, given))).code).toBe("WORKSPACE_ACCESS_UNAVAILABLE");
  expect(await kit.approvals.list({ all: true })).toEqual([]);
  await node.connect();
  const asking = faultOf(callTool(kit.tools, caller, given));
  await expect.poll(async () => (await kit.approvals.list()).length).toBe(1);
  node.setExec("off");
  await kit.approvals.decide((await kit.approvals.list())[0]?.id ?? "", { allow: true, by: "local" });
  expect(await asking).toMatchObject({ code: "POLICY_DENIED", details: { rule: "exec.mode" } });
  expect(await node.workspace.has("ran")).toBe(false);
});

test("a machine says beforehand which of its files it would refuse, and does nothing", async () => {
  await using kit = await openSessionKit();
  const node = await kit.addNode({ writable: false, files: { "a.txt": "one" } });
  const check = async (name: string, given: JsonObject): Promise<unknown> =>
    await node.tools.service.checkCall?.(
      create(ToolsCheckCallRequestSchema, { call: { name, arguments: given } }),
      {
        signal: new AbortController().signal,
        callId: "x",
        remainingMs: 1_000,
        metadata: new Map<string, string>(),
        peer: { address: "" },
      },
    );
  expect(await check("read", { path: "a.txt" })).toEqual({});
  expect(await check("list", {})).toEqual({});
  const write = { path: "b.txt", content: "x" };
  expect((await faultOf(check("write", write))).code).toBe("POLICY_DENIED");
  expect((await faultOf(check("read", { path: "../a.txt" }))).code).toBe("PATH_INVALID");
  expect((await faultOf(check("read", { path: "a.txt", workspace: "other" }))).code).toBe("NOT_FOUND");
  expect(await node.workspace.entries()).toEqual(["a.txt"]);
});
