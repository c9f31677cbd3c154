import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { ChangeTeller } from "./change-teller.ts";
import type { KernelWatches } from "./kernel-watches.ts";
import type { Workspace } from "./open-workspace.ts";
import { type WatchEvent, WatchLog } from "./watch-log.ts";
import type { WorkspaceManifest } from "./workspace-manifest.ts";
import { type WatchState, WorkspaceWatch } from "./workspace-watch.ts";

/** What the watch of one workspace stands on. */
export interface SharedWatchOptions {
  readonly workspace: Workspace;
  readonly manifest: WorkspaceManifest;
  readonly kernel: KernelWatches;
  readonly clock: Clock;
  /** How often the kernel is tried, in milliseconds; 10 s by default. */
  readonly scanEveryMs?: number;
}

/** How fresh what is known of a workspace is. */
export interface Freshness {
  /** `off` while nobody watches. */
  readonly state: WatchState["kind"] | "off";
  readonly fault: Fault | undefined;
  /** When the last event was told, in milliseconds since 1970; 0 for never. */
  readonly lastEventAtMs: number;
  /** When everything was last looked at, in milliseconds since 1970; 0 for never. */
  readonly lastScanAtMs: number;
  readonly folders: number;
  /** Of the folders, those that the kernel watches. */
  readonly covered: number;
}

/** What a subscriber gets: an event with its cursor, or that it has to compare. */
export type Delivery = (WatchEvent | { readonly kind: "gap" } | InitialState) & { readonly cursor: string };

type InitialState = { readonly kind: "available" } | { readonly kind: "unavailable"; readonly fault: Fault };

const scanEveryMsByDefault = 10_000;

/**
 * The watch of one workspace for everyone who asks. It runs while somebody listens; what it knew stays, so that who comes
 * back with a cursor gets what happened meanwhile. Whoever made it disposes it.
 */
export class SharedWatch implements AsyncDisposable {
  readonly #options: SharedWatchOptions;
  readonly #log = new WatchLog();
  readonly #teller: ChangeTeller;
  #watch: WorkspaceWatch | undefined;
  #listeners = 0;
  #turn: Promise<void> = Promise.resolve();

  constructor(options: SharedWatchOptions) {
    this.#options = options;
    this.#teller = new ChangeTeller({ ...options, log: this.#log });
  }

  /** Whether somebody listens. */
  get isWatched(): boolean {
    return this.#listeners > 0;
  }

  /** How fresh what is known is. */
  freshness(): Freshness {
    const state = this.#watch?.state;
    return {
      state: state?.kind ?? "off",
      fault: state?.fault,
      lastEventAtMs: this.#teller.lastEventAtMs,
      lastScanAtMs: this.#options.manifest.scannedAtMs,
      ...(this.#watch?.coverage ?? { folders: 0, covered: 0 }),
    };
  }

  /** Fails with `INVALID_ARGUMENT` for a cursor that no watch ever gave. */
  requireCursor(since: string): void {
    if (since !== "") this.#log.placeOf(since);
  }

  /** The place of the last event. */
  get lastTick(): number {
    return this.#log.lastTick;
  }

  /** See `WatchLog.cursorBefore`. */
  cursorBefore(tick: number, number: number): string {
    return this.#log.cursorBefore(tick, number);
  }

  /**
   * Events from `since` on, or from now on without it; first where the watch stands, once that is known. Who is further
   * behind than events are kept gets `gap` and goes on from there.
   */
  async *subscribe(since: string, signal: AbortSignal): AsyncGenerator<Delivery, void> {
    const log = this.#log;
    const asked = since === "" ? log.lastTick : log.placeOf(since);
    this.#listeners += 1;
    try {
      await this.#settle();
      let tick = asked ?? log.lastTick;
      // Where the watch stood at the time of an old event says nothing now.
      const oldTick = log.lastTick;
      const isLost = asked === undefined || log.after(asked) === "gap";
      if (isLost) yield { kind: "gap", cursor: log.cursorOf((tick = log.lastTick)) };
      const state = this.#watch?.state;
      if (isLost && state?.kind === "available") log.append({ kind: "available" });
      else if (state?.kind === "available") yield { kind: "available", cursor: log.cursorOf(tick) };
      else if (state?.fault) yield { kind: "unavailable", fault: state.fault, cursor: log.cursorOf(tick) };
      for (;;) {
        await log.wait(tick, signal);
        const event = log.after(tick);
        tick = typeof event === "object" ? event.tick : log.lastTick;
        if (typeof event === "object" && tick <= oldTick && isStanding(event)) continue;
        if (event !== undefined)
          yield { ...(event === "gap" ? { kind: "gap" } : event), cursor: log.cursorOf(tick) };
      }
    } finally {
      this.#listeners -= 1;
      await this.#settle();
    }
  }

  /** See `WorkspaceWatch.barrier`; gives the cursor. */
  async barrier(token: string, signal: AbortSignal): Promise<string | Fault> {
    const outcome = await this.#watch?.barrier(token, signal);
    if (typeof outcome === "number") return this.#log.cursorOf(outcome);
    if (outcome) return outcome;
    return new Fault("WORKSPACE_ACCESS_UNAVAILABLE", "nobody watches the workspace", {
      details: { reason: "not_started" },
    });
  }

  /** Starts the watch when somebody listens, and ends it when nobody does. */
  async #settle(): Promise<void> {
    const mine = this.#turn.then(async () => {
      if (this.#listeners > 0) {
        this.#watch ??= new WorkspaceWatch({
          ...this.#options,
          scanEveryMs: this.#options.scanEveryMs ?? scanEveryMsByDefault,
          log: this.#log,
          teller: this.#teller,
        });
        return;
      }
      const watch = this.#watch;
      this.#watch = undefined;
      await watch?.[Symbol.asyncDispose]();
    });
    this.#turn = mine.catch(() => undefined);
    await mine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners = 0;
    await this.#settle();
  }
}

function isStanding({ kind }: WatchEvent): boolean {
  return kind === "available" || kind === "unavailable";
}
