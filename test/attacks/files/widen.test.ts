import type { DescMessage } from "@bufbuild/protobuf";
import { expect } from "vitest";
import type { Approval } from "../../../gateway/approvals/approvals.ts";
import type { ToolResult } from "../../../gateway/tools/tool-result.ts";
import { Files, FileOperation } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Sessions } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit, type SessionKit } from "../../support/session-kit.ts";
import { callTool } from "../../support/tool-calls.ts";
import { writeWhole } from "../../support/write-whole.ts";
import { callContext } from "../../unit/workspace/temp-exports.ts";

const operator = { agent: "operator" };
const policy =
  "files:\n  shut: { deny: ['**/shut'] }\n  ask: { read: [open], write: [open], ask: on-miss }\n";
const files = { "open/a.txt": "a", "open/shut/b.txt": "b", "asked/c.txt": "c" };

function call(
  kit: SessionKit,
  name: string,
  args: { readonly [name: string]: string | boolean },
): Promise<ToolResult> {
  return callTool(kit.tools, operator, { name: `devbox__${name}`, arguments: args });
}

async function waiting(kit: SessionKit): Promise<Approval> {
  let found: Approval | undefined;
  await expect.poll(async () => ([found] = await kit.approvals.list()).length, { timeout: 20_000 }).toBe(1);
  if (!found) throw new Error("nothing waits");
  return found;
}

proves(
  "files.caller-cannot-widen",
  "what a caller sets never exceeds the policy, and a tool for files is an operation on files like any other",
  { timeout: 90_000 },
  async () => {
    // By a tool, as `nodes call` calls it: policy, approval and record are those of the service.
    await using kit = await openSessionKit({ policy });
    const machine = await kit.addNode({ profile: "full", files, writable: true });
    for (const [name, args] of [
      ["read", { path: "open/shut/b.txt" }],
      ["list", { path: "open/shut" }],
      ["write", { path: "open/shut/new.txt", content: "x" }],
    ] as const) {
      expect(await faultOf(call(kit, name, args))).toMatchObject({
        code: "POLICY_DENIED",
        details: { side: "gateway", rule: "files.shut deny **/shut" },
      });
    }
    const listed = await call(kit, "list", { path: "open", recursive: true });
    expect(JSON.stringify(listed)).not.toContain("shut");
    expect(JSON.stringify(listed)).toContain("open/a.txt");

    const asking = { path: "asked/new.txt", content: "by leave" };
    const hasty = { name: "devbox__write", arguments: asking, noWait: true };
    expect((await faultOf(callTool(kit.tools, operator, hasty))).code).toBe("APPROVAL_REQUIRED");
    const [open] = await kit.approvals.list();
    await kit.approvals.decide(open?.id ?? "", { allow: false, by: "owner" });
    expect(await machine.workspace.has("asked/new.txt")).toBe(false);
    const writing = call(kit, "write", asking);
    const asked = await waiting(kit);
    expect(JSON.parse(asked.detail)).toMatchObject({
      operation: "write",
      agent: "operator",
      tool: "devbox__write",
      node: "devbox",
      path: "asked/new.txt",
      canonicalPath: "asked/new.txt",
      writesBytes: 8,
    });
    await kit.approvals.decide(asked.id, { allow: true, by: "owner" });
    await writing;
    expect(await machine.workspace.text("asked/new.txt")).toBe("by leave");
    // The leave was for that content and once: other content is asked about anew.
    const other = { name: "devbox__write", arguments: { ...asking, content: "more" }, noWait: true };
    expect((await faultOf(callTool(kit.tools, operator, other))).code).toBe("APPROVAL_REQUIRED");
    const read = await call(kit, "read", { path: "open/a.txt" });
    expect(read.content).toMatchObject([{ text: "a" }]);
    const records = await kit.records();
    expect(records.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
      "files.read POLICY_DENIED",
      "files.list POLICY_DENIED",
      "files.write POLICY_DENIED",
      "files.list-tree ok",
      "files.write APPROVAL_REQUIRED",
      "files.write ok",
      "files.write APPROVAL_REQUIRED",
      "files.read ok",
    ]);
    expect(records[5]).toMatchObject({
      nodeId: machine.record.id,
      details: { tool: "devbox__write", approvalId: asked.id, bytes: 8, canonicalPath: "asked/new.txt" },
    });
    expect(JSON.stringify(records)).not.toContain("by leave");

    // By the service: what only a gateway may tell its node is not looked at, and no field skips a check.
    await using service = await openFilesKit({
      policy,
      fill: () => undefined,
      settings: { maxFileBytes: 10 },
    });
    const { client } = service;
    const workspace = "devbox:/app";
    await writeWhole(client, { workspace, path: "open/new", content: "new", leaseEpoch: 99n });
    const { identity } = await service.temp.files.preflight(
      {
        $typeName: "fairlead.v1.FilesPreflightRequest",
        workspace: "app",
        path: "open/new",
        operation: FileOperation.READ,
        countBelow: false,
        bootstrap: false,
        leaseEpoch: 0n,
      },
      callContext(),
    );
    const pin = { canonicalPath: "shut/x", identity: identity ?? "" };
    expect(await client.stat({ workspace, path: "open/new", pin, leaseEpoch: 99n })).toMatchObject({
      entry: { path: "open/new" },
    });
    expect(await faultOf(client.stat({ workspace, path: "shut/x", pin }))).toMatchObject({
      code: "POLICY_DENIED",
      details: { side: "gateway" },
    });
    expect(await faultOf(client.list({ workspace, path: "open", limit: 10_001 }))).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    const tooLarge = writeWhole(client, { workspace, path: "open/large", content: "x".repeat(11) });
    expect((await faultOf(tooLarge)).code).toBe("TOO_LARGE");
    // Looking for others is the gateway's own call.
    await faultOf(client.preflight({ workspace, path: "open/new" }));
    const fields = [...Files.methods, Sessions.method.callTool].flatMap((method) => fieldsOf(method.input));
    expect(
      fields.filter((name) => /follow|skip|force|bypass|unsafe|trusted|actor|identity/i.test(name)),
    ).toEqual([]);
  },
);

/** The names of the fields of a message and of what is in it. */
function fieldsOf(message: DescMessage, seen = new Set<string>()): readonly string[] {
  if (seen.has(message.typeName)) return [];
  seen.add(message.typeName);
  return message.fields.flatMap((field) => [
    field.name,
    ...(field.message && !isSetByGateway(field.message) ? fieldsOf(field.message, seen) : []),
  ]);
}

/** What the gateway fills in itself, whatever stands there. */
const isSetByGateway = ({ typeName }: DescMessage): boolean => typeName === "fairlead.v1.Pin";
