import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type Approval } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule, OptionSpec } from "../../shared/terminal/command.ts";
import { parseDurationMs } from "../../shared/terminal/duration.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { grantCommands } from "./grants.ts";
import { openGateway } from "./open-gateway.ts";

const idArgument = { name: "<id>", text: "the approval, or a prefix of its id that fits one only" };

/** The `approvals` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "approvals ls",
    summary: "what waits for a person",
    example: "fairlead approvals ls",
    options: [{ flags: "--all", text: "also what was decided" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { approvals } = await gateway
        .client(Admin)
        .listApprovals({ all: input.flag("all") }, gateway.call());
      await runtime.output.result({ approvals: approvals.map(toJson) }, () => ({
        columns: ["ID", "STATE", "TITLE", "AGENT", "NODE", "EXPIRES"],
        rows: approvals.map((one) => [
          one.id,
          toWords(one.state),
          one.title,
          one.agent,
          one.node,
          toTime(one.expiresMs) ?? "",
        ]),
        empty: "nothing waits",
      }));
    },
  },
  {
    words: "approvals show",
    summary: "everything that an answer covers",
    example: "fairlead approvals show 3f9c2a",
    args: [idArgument],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { approvals } = await gateway.client(Admin).listApprovals({ all: true }, gateway.call());
      const approval = pick(approvals, input.argument("id"));
      await runtime.output.result(toJson(approval), () => toLines(approval));
    },
  },
  decision("allow", [
    {
      flags: "--always",
      text: "do not ask again for the same path: keep a standing grant once it has succeeded",
    },
    { flags: "--for <time>", text: "how long that grant holds, such as 8h (default 30d, at most 365d)" },
  ]),
  decision("deny"),
  ...grantCommands,
];

function decision(word: "allow" | "deny", options: readonly OptionSpec[] = []): CommandModule {
  return {
    words: `approvals ${word}`,
    summary: `${word} what waits`,
    example:
      word === "allow"
        ? "fairlead approvals allow 3f9c2a --always --for 8h"
        : "fairlead approvals deny 3f9c2a",
    args: [idArgument],
    options,
    run: async (input, runtime) => {
      const request = { id: input.argument("id"), allow: word === "allow", ...readGrant(input) };
      await using gateway = await openGateway(runtime);
      const { approval } = await gateway.client(Admin).decideApproval(request, gateway.call());
      if (!approval) throw new Fault("INTERNAL", "the gateway answered without the approval");
      await runtime.output.result(toJson(approval), () => [`${approval.id} is ${toWords(approval.state)}`]);
    },
  };
}

function readGrant(input: CommandInput): { readonly always: boolean; readonly grantMs: bigint } {
  const always = input.flag("always");
  const life = input.text("for");
  if (life !== undefined && !always) {
    throw new Fault(
      "INVALID_ARGUMENT",
      "--for says how long a standing grant holds, and none was asked for",
      {
        hint: "say --always too",
        details: { field: "for" },
      },
    );
  }
  return { always, grantMs: life === undefined ? 0n : BigInt(parseDurationMs(life, "for")) };
}

function pick(approvals: readonly Approval[], id: string): Approval {
  const found = approvals.filter((one) => one.id.startsWith(id) && id !== "");
  const [only] = found;
  if (only && found.length === 1) return only;
  if (!only)
    throw new Fault("NOT_FOUND", `there is no approval ${id}`, { hint: "fairlead approvals ls --all" });
  throw new Fault("INVALID_ARGUMENT", `${id} fits several approvals`, {
    hint: `write more of it: ${found
      .slice(0, 10)
      .map((one) => one.id)
      .join(", ")}`,
    details: { field: "id", candidates: found.slice(0, 100).map((one) => one.id) },
  });
}

function toJson(approval: Approval): { readonly [key: string]: JsonValue } {
  return {
    id: approval.id,
    state: approval.state,
    title: approval.title,
    detail: approval.detail,
    agent: approval.agent,
    session: approval.session,
    node: approval.node,
    rule: approval.rule,
    askedAt: toTime(approval.askedMs),
    expiresAt: toTime(approval.expiresMs),
    digest: approval.digest,
  };
}

function toLines(approval: Approval): readonly string[] {
  return [
    `id: ${approval.id}`,
    `state: ${toWords(approval.state)}`,
    `title: ${approval.title}`,
    `agent: ${approval.agent}`,
    ...(approval.session === "" ? [] : [`session: ${approval.session}`]),
    `node: ${approval.node}`,
    `rule: ${approval.rule}`,
    `asked: ${toTime(approval.askedMs) ?? ""}`,
    `expires: ${toTime(approval.expiresMs) ?? ""}`,
    "detail:",
    ...approval.detail.split("\n").map((line) => `  ${line}`),
  ];
}
