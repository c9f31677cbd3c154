import { Fault } from "../../shared/fault/fault.ts";
import type { Hello } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { CloneReport } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/**
 * Two machines with one identity. A process names itself by its boot id: a hello of another process is either the same
 * home started anew, whose old connection is dead, or a copy of the home. The old one is asked for a sign of life, and
 * when it gives one it is kept and the newcomer refused. Copies that are never linked at the same time show in the counter
 * that each link moves on: a home that comes with an older state than it was given is not the one that it was given to.
 */

/** How long the process that is linked has to show that it lives, in milliseconds. */
const signOfLifeMs = 2_000;

/** What the watch for doubles needs. */
export interface CloneWatch {
  readonly clock: Clock;
  /** Hears of each pair of processes, once. */
  readonly onClone: ((nodeId: string, report: CloneReport) => void) | undefined;
}

/** Who says hello, and where from. */
export interface Newcomer {
  readonly hello: Hello;
  readonly from: string;
}

/** `CONFLICT` for a hello of another process than the one that is linked, as long as that one lives. */
export async function refuseDouble(
  node: NodeState,
  { hello, from }: Newcomer,
  watch: CloneWatch,
): Promise<void> {
  const { clock } = watch;
  const { link } = node;
  if (!link || link.saidGoodbye || link.hello.bootId === hello.bootId) return;
  link.send({ case: "ping", value: { sequence: 0n } });
  if (!(await link.nextSign(signOfLifeMs, clock)) || link.signal.aborted) return;
  const kept = { bootId: link.hello.bootId, address: link.connection.peer.address, atMs: clock.now() };
  const other = { bootId: hello.bootId, address: from, atMs: clock.now() };
  throw doubleFault(link.alias, tell(node, { kind: "refused", kept, other }, watch));
}

/** The state of this home is older than what was given to its node: another home has gone on from it. */
export function reportStale(node: NodeState, { hello, from }: Newcomer, watch: CloneWatch): void {
  const before = node.presence;
  const kept = { bootId: hello.bootId, address: from, atMs: watch.clock.now() };
  const other = {
    bootId: before.hello?.bootId ?? "",
    address: before.address,
    atMs: before.lastSeenMs,
  };
  tell(node, { kind: "suspected", kept, other }, watch);
}

function tell(node: NodeState, seen: Omit<CloneReport, "count">, { onClone }: CloneWatch): CloneReport {
  const before = node.presence.clone;
  const report = node.cloned(seen);
  const isSamePair =
    before?.kept.bootId === report.kept.bootId && before.other.bootId === report.other.bootId;
  if (!isSamePair) onClone?.(node.presence.nodeId, report);
  return report;
}

/** What the newcomer gets. It may try again: the one that is kept may be the copy, and leave. */
function doubleFault(alias: string, { kept, other }: CloneReport): Fault {
  return new Fault(
    "CONFLICT",
    `another process is linked as ${alias}, from ${kept.address}: one of the two homes is a copy of the other`,
    {
      retryable: true,
      details: {
        reason: "identity_in_use",
        expected: kept.bootId,
        actual: other.bootId,
        address: kept.address,
      },
      hint: "on the machine with the copied home: fairlead node join CODE --new-identity",
    },
  );
}
