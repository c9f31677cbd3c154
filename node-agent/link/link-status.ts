/** Where a node's link stands. */
export type LinkState = "connecting" | "online" | "waiting" | "draining" | "stopped";

/** What `node status` shows of the link. */
export interface LinkStatus {
  readonly state: LinkState;
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** A `snake_case` word: `linked`, `connection_refused`, `connect_timeout`, `heartbeat_missed`, `identity_revoked`, … */
  readonly reason: string;
  /** Dials since the link was up last. */
  readonly attempts: number;
  /** When the last dial began, in milliseconds since 1970; 0: never. */
  readonly lastAttemptMs: number;
  /** When the next dial begins, in milliseconds since 1970; 0: none is planned. */
  readonly nextAttemptMs: number;
  /** What a person can do; empty when nothing is to be done. */
  readonly nextStep: string;
  /** The address in use or dialled last. */
  readonly address: string;
  /** As the gateway said when it accepted the link last; empty before. */
  readonly nodeId: string;
  readonly alias: string;
  readonly generation: number;
}

/** A link that has not been dialled. */
export function initialStatus(nowMs: number): LinkStatus {
  return {
    state: "connecting",
    sinceMs: nowMs,
    reason: "starting",
    attempts: 0,
    lastAttemptMs: 0,
    nextAttemptMs: 0,
    nextStep: "",
    address: "",
    nodeId: "",
    alias: "",
    generation: 0,
  };
}
