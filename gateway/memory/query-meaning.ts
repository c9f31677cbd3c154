import { isFault } from "../../shared/fault/fault.ts";
import { type Clock, startDeadline } from "../../shared/lifetime/clock.ts";
import type { Embedder } from "./embedding/embedder.ts";
import type { QueryVector } from "./memory-index.ts";

/** What vectors know of a query. */
export interface Meaning {
  /** Undefined: search by keyword. */
  readonly vector: QueryVector | undefined;
  /** `none`: there is no provider; `late`: it did not answer in time; `unavailable`: it failed, or is left alone. */
  readonly state: "none" | "ready" | "late" | "unavailable";
}

/** How long vectors are waited for. */
export interface MeaningOptions {
  readonly withinMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal | undefined;
}

/** The vector of a query, if there is one within the time; a call that takes longer is ended. Never rejects. */
export async function askForMeaning(
  embedder: Embedder,
  query: string,
  { withinMs, clock, signal }: MeaningOptions,
): Promise<Meaning> {
  if (!embedder.provider) return { vector: undefined, state: "none" };
  using deadline = startDeadline({ timeoutMs: withinMs, signal, clock });
  try {
    const vector = await embedder.embedQuery(query, deadline.signal);
    return { vector, state: vector ? "ready" : "unavailable" };
  } catch (error) {
    return { vector: undefined, state: isFault(error, "DEADLINE_EXCEEDED") ? "late" : "unavailable" };
  }
}
