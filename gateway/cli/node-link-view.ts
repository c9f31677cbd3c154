import type { JsonValue } from "../../shared/fault/fault.ts";
import type { NodeSummary } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { toTime } from "../../shared/terminal/json.ts";

/** What is known of a node's link, as `--json` shows it. */
export function linkToJson({ link }: NodeSummary): { readonly [key: string]: JsonValue } {
  const drain = link?.drain;
  return {
    protocol: link?.protocol ?? 0,
    upgrade: link?.upgrade || null,
    installedVersion: link?.installedVersion || null,
    drain: drain
      ? {
          since: toTime(drain.sinceMs),
          deadline: toTime(drain.deadlineMs),
          until: toTime(drain.untilMs),
          note: drain.note,
        }
      : null,
    timedOutCalls: Object.fromEntries(
      (link?.timedOut ?? []).map(({ method, count }) => [method, Number(count)] as const),
    ),
    droppedMessages: Number(link?.droppedMessages ?? 0n),
  };
}

/** The version, with a mark for a side that is one protocol version behind. */
export function versionOf({ agentVersion, link }: NodeSummary): string {
  if (!link || link.upgrade === "") return agentVersion;
  return `${agentVersion} (upgrade ${link.upgrade === "node" ? "it" : "this gateway"})`;
}

/** Both versions when another one than the running one is installed; else empty. */
export function restartNeeded({ agentVersion, link }: NodeSummary): string {
  if (!link || link.installedVersion === "") return "";
  return `${link.installedVersion} is installed, ${agentVersion} runs`;
}

/** Since when it is drained, until when, and why; empty while it is in service. */
export function drainOf({ link }: NodeSummary): string {
  const drain = link?.drain;
  if (!drain) return "";
  const until = toTime(drain.untilMs);
  return [
    `since ${toTime(drain.sinceMs) ?? "now"}, calls end by ${toTime(drain.deadlineMs) ?? "now"}`,
    ...(until === null ? [] : [`back at ${until}`]),
    ...(drain.note === "" ? [] : [drain.note]),
  ].join("; ");
}

/** How many calls ran out of time, by method. */
export function timedOutOf({ link }: NodeSummary): string {
  return (link?.timedOut ?? []).map(({ method, count }) => `${count} of ${method}`).join(", ");
}
