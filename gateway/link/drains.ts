import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { putSetting } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { LinkHost } from "./links-options.ts";
import type { NodeDrain } from "./links.ts";

/** How a node is drained. */
export interface DrainRequest {
  /** How long calls that run may go on, in milliseconds; five minutes by default, at most a day. */
  readonly withinMs?: number | undefined;
  /** When it is back in service by itself, in milliseconds since 1970. */
  readonly untilMs?: number | undefined;
  /** For people, at most 200 characters. */
  readonly note?: string | undefined;
}

/** The nodes that an administrator has taken out of service, kept over restarts. Disposing it ends its timers. */
export interface Drains extends AsyncDisposable {
  /** Takes a node out of service, or changes how. `INVALID_ARGUMENT` names the field that is out of range. */
  drain(nodeId: string, request: DrainRequest): Promise<void>;
  /** Takes it back into service; says whether it was in service before. */
  undrain(nodeId: string): Promise<{ readonly already: boolean }>;
}

/** What drains stand on. */
export interface DrainsOptions {
  readonly store: Pick<Store, "db">;
  readonly links: Pick<LinkHost, "setDrain" | "links">;
  readonly clock: Clock;
  /** Hears what went wrong without a caller. */
  readonly onFault: (error: unknown) => void;
}

const keyPrefix = "drain/";
const usualWithinMs = 5 * 60_000;
const longestWithinMs = 24 * 3_600_000;
const longestNote = 200;

/** Brings back the drains that were there, and takes new ones. */
export async function openDrains(options: DrainsOptions): Promise<Drains> {
  const drains = new KeptDrains(options);
  await drains.recall();
  return drains;
}

class KeptDrains implements Drains {
  readonly #options: DrainsOptions;
  readonly #closing = new AbortController();
  readonly #timers = new Map<string, AbortController>();

  constructor(options: DrainsOptions) {
    this.#options = options;
  }

  async recall(): Promise<void> {
    const rows = await this.#options.store.db
      .selectFrom("settings")
      .select(["key", "value_json"])
      .where("key", "like", `${keyPrefix}%`)
      .execute();
    for (const { key, value_json: text } of rows)
      this.#set(key.slice(keyPrefix.length), readDrain(key, text));
  }

  async drain(nodeId: string, request: DrainRequest): Promise<void> {
    const { clock, store } = this.#options;
    const now = Math.round(clock.now());
    const drain = checkDrain(request, now);
    // Written first: a drain that was acknowledged holds, whatever comes.
    await putSetting(store.db, keyPrefix + nodeId, {
      value: { ...drain, untilMs: drain.untilMs ?? null },
      now,
    });
    this.#set(nodeId, drain);
  }

  async undrain(nodeId: string): Promise<{ readonly already: boolean }> {
    const { store, links } = this.#options;
    const removed = await store.db
      .deleteFrom("settings")
      .where("key", "=", keyPrefix + nodeId)
      .executeTakeFirst();
    this.#timers.get(nodeId)?.abort();
    this.#timers.delete(nodeId);
    links.setDrain(nodeId, undefined);
    return { already: removed.numDeletedRows === 0n };
  }

  #set(nodeId: string, drain: NodeDrain): void {
    this.#options.links.setDrain(nodeId, drain);
    this.#timers.get(nodeId)?.abort();
    this.#timers.delete(nodeId);
    if (drain.untilMs === undefined) return;
    const timer = new AbortController();
    this.#timers.set(nodeId, timer);
    const signal = AbortSignal.any([timer.signal, this.#closing.signal]);
    void this.#undrainAt(nodeId, drain.untilMs, signal);
  }

  async #undrainAt(nodeId: string, untilMs: number, signal: AbortSignal): Promise<void> {
    const { clock, onFault } = this.#options;
    try {
      // A longer wait than a timer bears ends early: the rest is waited for again.
      while (clock.now() < untilMs) await clock.sleep(untilMs - clock.now(), { signal });
    } catch {
      return;
    }
    await this.undrain(nodeId).catch(onFault);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
  }
}

function checkDrain({ withinMs = usualWithinMs, untilMs, note = "" }: DrainRequest, now: number): NodeDrain {
  if (withinMs < 0 || withinMs > longestWithinMs) throw outOfRange("within", withinMs, "from 0 to 24 h");
  if (untilMs !== undefined && untilMs <= now) throw outOfRange("until", untilMs, "a time to come");
  if (note.length > longestNote) throw outOfRange("note", note.length, `at most ${longestNote} characters`);
  return { sinceMs: now, deadlineMs: now + withinMs, untilMs, note };
}

function outOfRange(field: string, actual: number, range: string): Fault {
  return new Fault("INVALID_ARGUMENT", `the drain's ${field} is ${actual}; it must be ${range}`, {
    details: { field, actual },
  });
}

/** A drain that cannot be read is not taken for none. */
function readDrain(key: string, text: string): NodeDrain {
  const value: unknown = JSON.parse(text);
  if (typeof value === "object" && value !== null && "sinceMs" in value && "deadlineMs" in value) {
    const { sinceMs, deadlineMs } = value;
    const untilMs = "untilMs" in value && typeof value.untilMs === "number" ? value.untilMs : undefined;
    const note = "note" in value && typeof value.note === "string" ? value.note : "";
    if (typeof sinceMs === "number" && typeof deadlineMs === "number")
      return { sinceMs, deadlineMs, untilMs, note };
  }
  throw new Fault("IO_ERROR", `the store holds no drain under ${key}`, { details: { key } });
}
