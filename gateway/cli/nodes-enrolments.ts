import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type EnrolmentRequest, type RefusedJoin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { ArgumentSpec, CommandModule } from "../../shared/terminal/command.ts";
import { formatDuration } from "../../shared/terminal/duration.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { given, nodeToJson, toPairs } from "./node-view.ts";
import { openGateway } from "./open-gateway.ts";

const requestArgument: ArgumentSpec = {
  name: "<id>",
  text: "the request's id, or a prefix of it of at least 6 characters",
};

/** `nodes pending`, `nodes approve` and `nodes reject`. */
export const enrolmentCommands: readonly CommandModule[] = [
  {
    words: "nodes pending",
    summary: "machines that wait to be let in, and joins that were refused",
    example: "fairlead nodes pending",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const { requests, refused } = await gateway.client(Admin).listEnrolments({}, gateway.call());
      const now = runtime.clock.now();
      const json = {
        requests: requests.map((request) => requestToJson(request, now)),
        refused: refused.map(refusedToJson),
      };
      await runtime.output.result(json, () => [
        ...(requests.length === 0 ? ["no machine waits"] : requests.flatMap((one) => toLines(one, now))),
        ...refused.map((one) => refusedToLine(one, now)),
      ]);
    },
  },
  {
    words: "nodes approve",
    summary: "let a waiting machine in, exactly as it was shown",
    example: "fairlead nodes approve 3f9a41c7d2e0 --name devbox",
    args: [requestArgument],
    options: [
      { flags: "--name <alias>", text: "the node's alias (default: its code's, else the machine's wish)" },
      { flags: "--label <k=v>", text: "a label beside those of its code", many: true },
      { flags: "--profile <name>", text: "read, work or full instead of its code's profile" },
    ],
    run: async (input, runtime) => {
      const alias = input.text("name") ?? "";
      const request = {
        id: input.argument("id"),
        alias,
        labels: parsePairs(input.texts("label"), "label"),
        profile: input.text("profile") ?? "",
      };
      await using gateway = await openGateway(runtime);
      const answer = await gateway.client(Admin).approveEnrolment(request, gateway.call());
      const { already, requestId, comparisonCode } = answer;
      const node = given(answer.node);
      const facts = `node ${node.id}, profile ${node.profile}, comparison code ${comparisonCode}`;
      const json = { ...nodeToJson(node), requestId, comparisonCode, already };
      await runtime.output.result(json, () => [
        `${already ? "it was let in before" : "let in"} as ${node.alias}: ${facts}`,
      ]);
      if (already && alias !== "" && alias !== node.alias)
        runtime.output.note(
          `note: its alias stays; to change it: fairlead nodes rename ${node.alias} ${alias}`,
        );
    },
  },
  {
    words: "nodes reject",
    summary: "turn a waiting machine away",
    example: "fairlead nodes reject 3f9a41c7d2e0",
    args: [requestArgument],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { id: input.argument("id") };
      const answer = await gateway.client(Admin).rejectEnrolment(request, gateway.call());
      if (!answer.request) throw new Fault("INTERNAL", "the gateway answered without the request");
      const { already } = answer;
      const shown = requestToJson(answer.request, runtime.clock.now());
      await runtime.output.result({ ...shown, already }, () => [
        `request ${request.id} ${already ? "was turned away before" : "is turned away"}`,
      ]);
    },
  },
];

function requestToJson(request: EnrolmentRequest, now: number): { readonly [key: string]: JsonValue } {
  return {
    id: request.id,
    command: request.command,
    wishedName: request.wishedName,
    hostName: request.hostName,
    platform: request.platform,
    version: request.agentVersion,
    keyFingerprint: request.key,
    comparisonCode: request.comparisonCode,
    address: request.address,
    workspaces: request.workspaces,
    labels: request.labels,
    profile: request.profile,
    alias: request.alias,
    note: request.note,
    askedAt: toTime(request.askedMs),
    ageMs: Math.max(0, now - Number(request.askedMs)),
    lastSeenAt: toTime(request.seenMs),
    expiresAt: toTime(request.expiresMs),
    connected: request.connected,
  };
}

function toLines(request: EnrolmentRequest, now: number): readonly string[] {
  const facts: readonly (readonly [string, string])[] = [
    ["comparison code", request.comparisonCode],
    ["key", request.key],
    ["host", `${request.hostName} (${request.platform}), version ${request.agentVersion}`],
    ["address", `${request.address}${request.connected ? ", on the line" : ", not on the line"}`],
    ["wished name", request.wishedName],
    ["workspaces", request.workspaces.join(", ")],
    ["alias of the code", request.alias],
    ["labels", toPairs(request.labels)],
    ["profile", request.profile],
    ["note", request.note],
    [
      "waits since",
      `${formatDuration(now - Number(request.askedMs))}, until ${toTime(request.expiresMs) ?? ""}`,
    ],
    ["to let it in", request.command],
  ];
  return [
    `request ${request.id}`,
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `  ${name}: ${value}`),
  ];
}

function refusedToJson(refused: RefusedJoin): JsonValue {
  return {
    address: refused.address,
    code: refused.code,
    reason: refused.reason,
    count: refused.count,
    firstSeenAt: toTime(refused.firstSeenMs),
    lastSeenAt: toTime(refused.lastSeenMs),
  };
}

function refusedToLine(refused: RefusedJoin, now: number): string {
  const { address, code, reason, count } = refused;
  const ago = formatDuration(now - Number(refused.lastSeenMs));
  const times = count === 1 ? "once" : `${count} times`;
  return `refused ${address}: ${toWords(reason)} (${code}), ${times}, last ${ago} ago`;
}
