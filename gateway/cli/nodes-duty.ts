import { Fault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { given, nodeArgument, nodeToJson } from "./node-view.ts";
import { openGateway } from "./open-gateway.ts";

const drain: CommandModule = {
  words: "nodes drain",
  summary: "take a node out of service: no new call, and what runs ends in time",
  example: 'fairlead nodes drain devbox --within 5m --note "new disk"',
  args: [nodeArgument],
  options: [
    { flags: "--within <duration>", text: "how long calls that run may go on; 5m by default, at most 24h" },
    {
      flags: "--until <time>",
      text: "when it is back in service by itself: 2026-01-31T18:00:00Z; else by nodes undrain",
    },
    { flags: "--note <text>", text: "why, for whoever looks at it; at most 200 characters" },
  ],
  run: async (input, runtime) => {
    const withinMs = input.durationMs("within");
    const until = input.text("until");
    await using gateway = await openGateway(runtime);
    const { node } = await gateway.client(Admin).drainNode(
      {
        node: input.argument("node"),
        ...(withinMs === undefined ? {} : { withinMs: BigInt(withinMs) }),
        untilMs: until === undefined ? 0n : BigInt(toUntil(until)),
        note: input.text("note") ?? "",
      },
      gateway.call(),
    );
    const shown = given(node);
    const of = shown.link?.drain;
    const untilText = toTime(of?.untilMs ?? 0n);
    await runtime.output.result(nodeToJson(shown), () => [
      `${shown.alias} takes no new calls; what runs on it ends by ${toTime(of?.deadlineMs ?? 0n) ?? "now"}`,
      untilText === null
        ? `it is back in service with: fairlead nodes undrain ${shown.alias}`
        : `it is back in service at ${untilText}, or before with: fairlead nodes undrain ${shown.alias}`,
    ]);
  },
};

const undrain: CommandModule = {
  words: "nodes undrain",
  summary: "take a drained node back into service",
  example: "fairlead nodes undrain devbox",
  args: [nodeArgument],
  run: async (input, runtime) => {
    await using gateway = await openGateway(runtime);
    const request = { node: input.argument("node") };
    const { node, already } = await gateway.client(Admin).undrainNode(request, gateway.call());
    const shown = given(node);
    await runtime.output.result({ ...nodeToJson(shown), already }, () => [
      `${shown.alias} ${already ? "was in service before" : "is back in service"}; it is ${shown.state}`,
    ]);
  },
};

const disconnect: CommandModule = {
  words: "nodes disconnect",
  summary: "end a node's link and its running calls; it dials again by itself",
  example: "fairlead nodes disconnect devbox",
  args: [nodeArgument],
  run: async (input, runtime) => {
    await using gateway = await openGateway(runtime);
    const request = { node: input.argument("node") };
    const { node, wasLinked } = await gateway.client(Admin).disconnectNode(request, gateway.call());
    const shown = given(node);
    await runtime.output.result({ ...nodeToJson(shown), wasLinked }, () => [
      wasLinked
        ? `the link of ${shown.alias} has ended; it dials again by itself`
        : `${shown.alias} had no link`,
    ]);
  },
};

/** `nodes drain`, `nodes undrain` and `nodes disconnect`. */
export const dutyCommands: readonly CommandModule[] = [drain, undrain, disconnect];

function toUntil(text: string): number {
  const time = /^\d{4}-/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new Fault("INVALID_ARGUMENT", `--until is ${text}, which is no time`, {
    hint: "write it like 2026-01-31T18:00:00Z",
    details: { field: "until", actual: text },
  });
}
