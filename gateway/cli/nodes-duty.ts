import { Fault } from "../../shared/fault/fault.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { given, nodeToJson } from "./node-view.ts";
import { bulkOptions, nodeOrSelector, runOnNodes } from "./nodes-bulk.ts";

const drain: CommandModule = {
  words: "nodes drain",
  summary: "take a node out of service: no new call, and what runs ends in time",
  example: 'fairlead nodes drain devbox --within 5m --note "new disk"',
  args: [nodeOrSelector],
  options: [
    { flags: "--within <duration>", text: "how long calls that run may go on; 5m by default, at most 24h" },
    {
      flags: "--until <time>",
      text: "when it is back in service by itself: 2026-01-31T18:00:00Z; else by nodes undrain",
    },
    { flags: "--note <text>", text: "why, for whoever looks at it; at most 200 characters" },
    ...bulkOptions,
  ],
  run: async (input, runtime) => {
    const withinMs = input.durationMs("within");
    const until = input.text("until");
    const request = {
      ...(withinMs === undefined ? {} : { withinMs: BigInt(withinMs) }),
      untilMs: until === undefined ? 0n : BigInt(toUntil(until)),
      note: input.text("note") ?? "",
    };
    return await runOnNodes(input, runtime, {
      node: input.maybeArgument("node"),
      act: async (admin, name, call) => {
        const { node } = await admin.drainNode({ ...request, node: name }, call);
        const shown = given(node);
        const of = shown.link?.drain;
        const untilText = toTime(of?.untilMs ?? 0n);
        const lines = [
          `${shown.alias} takes no new calls; what runs on it ends by ${toTime(of?.deadlineMs ?? 0n) ?? "now"}`,
          untilText === null
            ? `it is back in service with: fairlead nodes undrain ${shown.alias}`
            : `it is back in service at ${untilText}, or before with: fairlead nodes undrain ${shown.alias}`,
        ];
        return { json: nodeToJson(shown), lines };
      },
    });
  },
};

const undrain: CommandModule = {
  words: "nodes undrain",
  summary: "take a drained node back into service",
  example: "fairlead nodes undrain devbox",
  args: [nodeOrSelector],
  options: bulkOptions,
  run: (input, runtime) =>
    runOnNodes(input, runtime, {
      node: input.maybeArgument("node"),
      act: async (admin, name, call) => {
        const { node, already } = await admin.undrainNode({ node: name }, call);
        const shown = given(node);
        const said = already ? "was in service before" : "is back in service";
        return {
          json: { ...nodeToJson(shown), already },
          lines: [`${shown.alias} ${said}; it is ${shown.state}`],
        };
      },
    }),
};

const disconnect: CommandModule = {
  words: "nodes disconnect",
  summary: "end a node's link and its running calls; it dials again by itself",
  example: "fairlead nodes disconnect devbox",
  args: [nodeOrSelector],
  options: bulkOptions,
  run: (input, runtime) =>
    runOnNodes(input, runtime, {
      node: input.maybeArgument("node"),
      act: async (admin, name, call) => {
        const { node, wasLinked } = await admin.disconnectNode({ node: name }, call);
        const shown = given(node);
        const line = wasLinked
          ? `the link of ${shown.alias} has ended; it dials again by itself`
          : `${shown.alias} had no link`;
        return { json: { ...nodeToJson(shown), wasLinked }, lines: [line] };
      },
    }),
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
