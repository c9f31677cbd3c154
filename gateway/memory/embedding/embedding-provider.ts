import type { CallUrgency } from "./call-gate.ts";

/** How texts are embedded. */
export interface EmbedOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  readonly urgency: CallUrgency;
}

/** Turns texts into vectors. */
export interface EmbeddingProvider {
  /** Its kind, as the configuration names it. */
  readonly kind: string;
  readonly model: string;
  /** Names what made a vector: vectors of two identities are never compared. Holds no secret. */
  readonly identity: string;
  /** Most calls that it has open at once. */
  readonly maxCalls: number;
  /** Most texts of one call. */
  readonly batchTexts: number;
  /**
   * One vector of unit length for each text, in the order given; at most `batchTexts` at once. Faults: `RATE_LIMITED`
   * with `details.retryAfterMs`, `DEADLINE_EXCEEDED`, `INTEGRITY_FAILURE` for vectors that cannot be used,
   * `INVALID_ARGUMENT` for texts that it refuses, and `IO_ERROR` with `details.reason` `embedding_unreachable`,
   * `embedding_refused` or `embedding_failed`.
   */
  embed(texts: readonly string[], options: EmbedOptions): Promise<readonly Float32Array[]>;
}
