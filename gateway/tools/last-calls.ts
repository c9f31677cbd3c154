import type { FaultCode } from "../../shared/fault/codes.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Caller } from "./caller.ts";

/** How far a call came, and how it ended. */
export interface LastCall {
  readonly callId: string;
  /** Whether it got past policy, approval and the check of its arguments. */
  readonly admitted: boolean;
  /** The fault it ended with; absent for success and while it runs. */
  readonly code?: FaultCode | undefined;
  readonly reason?: string | undefined;
  readonly hint?: string | undefined;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly ended: boolean;
}

const maxKept = 1_000;

/** The last call of each tool by each caller, for explanations; the oldest are forgotten. */
export class LastCalls {
  readonly #calls = new Map<string, LastCall>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes how far the latest call of a tool came. */
  note(caller: Caller, tool: string, call: Omit<LastCall, "at">): void {
    const key = keyOf(caller, tool);
    this.#calls.delete(key);
    this.#calls.set(key, { ...call, at: this.#clock.now() });
    if (this.#calls.size <= maxKept) return;
    for (const oldest of this.#calls.keys()) {
      this.#calls.delete(oldest);
      break;
    }
  }

  /** The latest call, when it is remembered. */
  find(caller: Caller, tool: string): LastCall | undefined {
    return this.#calls.get(keyOf(caller, tool));
  }
}

function keyOf(caller: Caller, tool: string): string {
  return `${caller.session?.id ?? `agent:${caller.agent}`} ${tool}`;
}
