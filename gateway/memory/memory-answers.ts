import { Fault, type FaultJson } from "../../shared/fault/fault.ts";
import type { Fault as WireFault } from "../../shared/gen/fairlead/v1/fault_pb.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { IndexHit } from "./memory-index.ts";
import {
  type MemoryHit,
  type MemoryIndexState,
  type MemoryWorkspace,
  toAddress,
} from "./memory-workspace.ts";
import type { Ranked } from "./ranking/rank-hits.ts";
import type { IndexStanding } from "./workspace-index.ts";

/** A passage of an index with its workspace, before ranking. */
export interface Candidate extends IndexHit {
  readonly workspace: MemoryWorkspace;
}

/** A passage in its place, as it is told. */
export function toHit({ hit, score, recency, similarity }: Ranked<Candidate>): MemoryHit {
  const { workspace, path, digest, firstLine, lastLine, text, keyword, vector } = hit;
  return {
    node: workspace.alias,
    workspace: toAddress(workspace),
    path,
    digest,
    firstLine,
    lastLine,
    text,
    score,
    scores: { keyword, ...(vector === undefined ? {} : { vector }), recency, similarity },
  };
}

/** Equal questions give equal orders: what scores alike is ordered by where it stands. */
export function compareHits(a: Candidate, b: Candidate): number {
  if (a.score !== b.score) return b.score - a.score;
  const [first, second] = [toAddress(a.workspace), toAddress(b.workspace)];
  if (first !== second) return first < second ? -1 : 1;
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return a.firstLine - b.firstLine;
}

/** How fresh an index is, as it is told. */
export function toState(
  workspace: MemoryWorkspace,
  standing: IndexStanding,
  isFresh: boolean,
): MemoryIndexState {
  return {
    workspace: toAddress(workspace),
    fresh: isFresh,
    verifiedMs: BigInt(standing.verifiedMs),
    pending: standing.pending + standing.waitingFiles,
    missingVectors: standing.missingVectors,
    vectorsFault: toWire(standing.vectorFault),
    files: standing.files,
    chunks: standing.chunks,
    reason:
      standing.reason === "" && !isFresh
        ? standing.pending > 0
          ? "pending"
          : "not_verified"
        : standing.reason,
    problems: standing.problems.map((problem) => ({
      path: problem.path,
      fault: toWire(problem.fault),
    })),
  };
}

/** A fault as it travels. */
export function toWire(fault: FaultJson): WireFault;
export function toWire(fault: FaultJson | undefined): WireFault | undefined;
export function toWire(fault: FaultJson | undefined): WireFault | undefined {
  return fault && toWireFault(new Fault(fault.code, fault.message, fault));
}
