import { randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal } from "../../shared/lifetime/clock.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { KnownFile, KnownLink, KnownProblem } from "./known-tree.ts";

/** A folder as an event shows it. */
export interface ShownFolder {
  readonly kind: "folder";
  readonly mode: number;
  readonly mtimeNs: bigint;
}

/** What stands at the path of an event. */
export type Shown = KnownFile | KnownLink | KnownProblem | ShownFolder;

/** What happened to one entry. */
export type EntryEventKind = "created" | "changed" | "removed" | "moved" | "permitted" | "withdrawn";

/** What a watch says. */
export type Said =
  | {
      readonly kind: EntryEventKind;
      readonly path: WorkspacePath;
      /** Where it was, for `moved`. */
      readonly from?: WorkspacePath;
      /** What stands there now; none where nothing does. */
      readonly shown?: Shown;
    }
  | { readonly kind: "available" | "gap" }
  | { readonly kind: "unavailable"; readonly fault: Fault }
  | { readonly kind: "settled"; readonly token: string };

/** One event, and its place among all of its epoch. */
export type WatchEvent = Said & { readonly tick: number };

/** Events that can be asked for again; who is further behind has to compare. */
const keptEvents = 10_000;

/** The events of one workspace in order. Readers hold their own place, so that a slow one costs nothing. */
export class WatchLog {
  /** Names this run of events: a cursor of another one says nothing here. */
  readonly epoch: string = randomBytes(6).toString("hex");
  #events: WatchEvent[] = [];
  /** Of the first event that is kept. */
  #firstTick = 1;
  #news = Promise.withResolvers<void>();

  /** The place of the last event. */
  get lastTick(): number {
    return this.#firstTick + this.#events.length - 1;
  }

  /** Adds an event, and wakes who waits. */
  append(said: Said): WatchEvent {
    const event = { ...said, tick: this.lastTick + 1 };
    this.#events.push(event);
    // Half of them at a time, so that each costs little.
    if (this.#events.length > keptEvents) {
      const count = keptEvents / 2;
      this.#events = this.#events.slice(count);
      this.#firstTick += count;
    }
    this.#news.resolve();
    this.#news = Promise.withResolvers();
    return event;
  }

  /** The event behind `tick`; undefined when there is none yet, `gap` when it is kept no more. */
  after(tick: number): WatchEvent | "gap" | undefined {
    if (tick + 1 < this.#firstTick) return "gap";
    return this.#events[tick + 1 - this.#firstTick];
  }

  /** Resolves when there is an event behind `tick`. */
  async wait(tick: number, signal: AbortSignal): Promise<void> {
    while (this.lastTick <= tick) await raceSignal(this.#news.promise, signal);
  }

  /** A place as it travels. */
  cursorOf(tick: number): string {
    return `${this.epoch}-${tick}`;
  }

  /** A place before that of an event for which one reader is told of several: who comes back with it has to compare. */
  cursorBefore(tick: number, number: number): string {
    return `${this.epoch}-${tick - 1}.${String(number).padStart(7, "0")}`;
  }

  /**
   * The place that `cursor` names; undefined when it is of another epoch, or one that nobody can go on from. One that is
   * none is `INVALID_ARGUMENT`.
   */
  placeOf(cursor: string): number | undefined {
    const form = /^([0-9a-f]{12})-(0|[1-9]\d{0,14})(\.\d{7})?$/;
    const [, epoch, tick, part] = form.exec(cursor) ?? [];
    if (epoch === undefined || (epoch === this.epoch && Number(tick) > this.lastTick)) {
      throw new Fault("INVALID_ARGUMENT", "since is no cursor of a watch", {
        details: { field: "since" },
        hint: "give the cursor of an event as it was, or none",
      });
    }
    return epoch === this.epoch && part === undefined ? Number(tick) : undefined;
  }
}
