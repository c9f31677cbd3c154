import type { Lease } from "../../shared/lifetime/lease.ts";

/** The session that a call belongs to. */
export interface CallerSession {
  readonly id: string;
  /** The node and the export that it is bound to. */
  readonly nodeId: string;
  readonly workspace: string;
  /** Ends with the session. */
  readonly lease: Lease;
}

/** Who calls tools. */
export interface Caller {
  /** The agent that policy goes by; `operator` for a person at the command line. */
  readonly agent: string;
  /** Absent for the operator, who acts on every node. */
  readonly session?: CallerSession | undefined;
}

/** The agent that people at the command line act as. */
export const operatorAgent = "operator";
