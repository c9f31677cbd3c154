import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect } from "vitest";
import {
  ToolsCallIdempotentRequestSchema,
  ToolsCallRequestSchema,
} from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";

const operator = { agent: "operator" };

proves(
  "policy.approval-bound-to-content",
  "an approval covers tool, schema, node, session and arguments: one changed byte of any runs nothing",
  async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode({ profile: "work" });
    const other = await kit.addNode({ alias: "other", profile: "work" });
    const open = async (): Promise<Awaited<ReturnType<typeof kit.sessions.caller>>> =>
      await kit.sessions.caller((await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" })).id);
    const [first, second] = [await open(), await open()];
    const call = (
      caller: typeof first | typeof operator,
      name: string,
      given: JsonObject,
    ): Promise<unknown> => callTool(kit.tools, caller, { name, arguments: given, noWait: true });
    const given = { command: "touch ran", cwd: "" };
    const asked = await faultOf(call(first, "exec", given));
    const id = JSON.stringify(asked.details["approvalId"]).replaceAll('"', "");
    await kit.approvals.decide(id, { allow: true, by: "local" });
    const changed = [
      call(first, "exec", { ...given, command: "touch ran " }),
      call(first, "exec", { ...given, env: {} }),
      call(first, "devbox__exec", given),
      call(second, "exec", given),
      call(operator, "devbox__exec", given),
      call(operator, "other__exec", given),
    ];
    for (const attempt of changed) expect((await faultOf(attempt)).code).toBe("APPROVAL_REQUIRED");
    expect(await node.workspace.has("ran")).toBe(false);
    expect(await other.workspace.has("ran")).toBe(false);
    // The order of keys is no change.
    await call(first, "exec", { cwd: "", command: "touch ran" });
    expect(await node.workspace.has("ran")).toBe(true);
  },
);

proves(
  "tools.node-checks-again",
  "what a gateway lets through is judged on the node by its own schema and configuration, before any effect",
  async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode({ exec: "off", files: { "a.txt": "one\n" } });
    const { service } = node.tools;
    const context = {
      signal: new AbortController().signal,
      callId: "x",
      remainingMs: 1_000,
      metadata: new Map<string, string>(),
      peer: { address: "" },
    };
    const once = (name: string, given: JsonObject, more: object = {}): Promise<unknown> =>
      drain(
        service.call?.(
          create(ToolsCallRequestSchema, { call: { name, arguments: given, ...more } }),
          context,
        ),
      );
    const often = (name: string, given: JsonObject): Promise<unknown> =>
      drain(
        service.callIdempotent?.(
          create(ToolsCallIdempotentRequestSchema, { call: { name, arguments: given } }),
          context,
        ),
      );
    const refused = [
      [once("exec", { command: "touch x" }), "POLICY_DENIED"],
      [once("exec", { command: "touch x" }, { approvalId: "forged" }), "POLICY_DENIED"],
      [once("exec", { command: [] }), "INVALID_ARGUMENT"],
      [once("exec", { command: "x", more: true }), "INVALID_ARGUMENT"],
      [once("write", { path: "a.txt" }), "INVALID_ARGUMENT"],
      [often("write", { path: "a.txt", content: "x" }), "INVALID_ARGUMENT"],
      [often("read", { path: 7 }), "INVALID_ARGUMENT"],
      [once("shutdown", {}), "INVALID_ARGUMENT"],
    ] as const;
    for (const [attempt, code] of refused) {
      expect(await faultOf(attempt)).toMatchObject({ code, details: { side: "node" } });
    }
    expect((await faultOf(once("write", { path: "../a.txt", content: "x" }))).code).toBe("PATH_INVALID");
    expect(await node.workspace.entries()).toEqual(["a.txt"]);
    expect(await node.workspace.text("a.txt")).toBe("one\n");
  },
);

async function drain(parts: AsyncIterable<unknown> | undefined): Promise<void> {
  for await (const _part of parts ?? []) continue;
}
