import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { appendPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { ChangeTeller } from "./change-teller.ts";
import { FolderWatches } from "./folder-watches.ts";
import type { KernelWatches } from "./kernel-watches.ts";
import { type KnownFolder, pathIn } from "./known-tree.ts";
import type { Workspace } from "./open-workspace.ts";
import { scanFolder, scanNames, type ScanOptions, scanTree } from "./scan-tree.ts";
import type { WatchLog } from "./watch-log.ts";
import type { WorkspaceManifest } from "./workspace-manifest.ts";

/** What the watch of a workspace stands on. */
export interface WorkspaceWatchOptions {
  readonly workspace: Workspace;
  readonly manifest: WorkspaceManifest;
  readonly kernel: KernelWatches;
  readonly log: WatchLog;
  readonly teller: ChangeTeller;
  readonly clock: Clock;
  /** How often it is tried whether the kernel still answers, and looked for what it does not tell, in milliseconds. */
  readonly scanEveryMs: number;
}

/** Where a watch stands. */
export interface WatchState {
  /** `starting` until it was first told whether everything is covered. */
  readonly kind: "starting" | "available" | "unavailable";
  readonly fault?: Fault;
}

/** Stillness that changes are given to become whole, in milliseconds. */
const settleMs = 4;
/** Everything is looked at again after so long, whatever the kernel said, in milliseconds. */
const verifyEveryMs = 600_000;
/** Between two looks on the timer while there is no watch that could be relied on, in milliseconds. */
const blindEveryMs = 2_000;
/** After so many hints at once everything is looked at again. */
const manyHints = 4_096;
type Cause = "hints" | "time";

/**
 * The live watch of one workspace: what the kernel hints at is looked at, and what was found different is told. It covers
 * every folder before it says so, tries on a timer whether the kernel still answers, and looks by itself where it does not.
 * Disposing it gives every handle back.
 */
export class WorkspaceWatch implements AsyncDisposable {
  readonly #options: WorkspaceWatchOptions;
  readonly #scope: Scope;
  readonly #folders: FolderWatches;
  #state: WatchState = { kind: "starting" };
  #isHeard = false;
  #mustCover = false;
  #mustVerify = false;
  #verifiedAtMs = 0;
  #hint = Promise.withResolvers<void>();

  constructor(options: WorkspaceWatchOptions) {
    this.#options = options;
    this.#scope = new Scope("watch", options.workspace.signal);
    this.#folders = new FolderWatches(options, { onHint: () => this.#wake(), onDoubt: () => this.#cover() });
    options.manifest.observe({
      onFolder: (folder, path) => this.#folders.ensure(folder, path),
      onChanges: async (changes) => {
        for (const { kind, known } of changes) {
          if (kind === "removed" && known.kind === "folder") this.#folders.drop(known);
        }
        await options.teller.tell(changes);
      },
    });
    this.#scope.use(options.kernel.onOverflow(() => this.#lose()));
    this.#scope.use(
      options.workspace.onPermit((wasOpen) => {
        options.teller.wasOpen ??= wasOpen;
        this.#mustVerify = true;
        this.#wake();
      }),
    );
    this.#scope.defer(() => {
      // Who looks while nobody watches tells for those who come back.
      options.manifest.observe({
        onFolder: async () => undefined,
        onChanges: (changes) => options.teller.tell(changes),
      });
      this.#folders[Symbol.dispose]();
    });
    this.#scope.spawn("watch", (signal) => this.#run(signal));
  }

  /** Where it stands now. */
  get state(): WatchState {
    return this.#state;
  }

  /** Folders, and those of them that the kernel watches. */
  get coverage(): { readonly folders: number; readonly covered: number } {
    return this.#folders.coverage;
  }

  /**
   * Resolves with the place of an event that comes after those of everything that happened before; with a fault while the
   * watch is not available.
   */
  async barrier(token: string, signal: AbortSignal): Promise<number | Fault> {
    const { kernel, log } = this.#options;
    const isHeard = this.#state.kind === "available" && (await kernel.barrier(signal));
    if (!isHeard) return this.#state.fault ?? notYet();
    await this.#process(signal);
    if (this.#mustVerify) await this.#scanAll(signal);
    // What is watched may be another folder by now.
    if (this.#state.kind !== "available" || this.#mustCover) return this.#state.fault ?? notYet();
    return log.append({ kind: "settled", token }).tick;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const backoff = createBackoff({ firstMs: 100, maxMs: 2_000 });
    for (;;) {
      let beganAtMs = clock.now();
      try {
        await this.#coverAll(signal);
        beganAtMs = Infinity;
        backoff.reset();
        await this.#follow(signal);
      } catch (error) {
        signal.throwIfAborted();
        this.#tellUnavailable(faultFromError(error));
        // What takes long to fail is not tried at once again.
        await clock.sleep(Math.max(backoff.next(), (clock.now() - beganAtMs) * 20), { signal });
      }
    }
  }

  /** Watches every folder anew and looks at it, then says what came of it. */
  async #coverAll(signal: AbortSignal): Promise<void> {
    this.#mustCover = false;
    // Before any folder is watched: a kernel that answers only afterwards may have been deaf to them.
    this.#isHeard = await this.#options.kernel.barrier(signal);
    this.#folders.forget();
    await this.#scanAll(signal);
    await this.#tellCoverage(signal);
  }

  async #scanAll(signal: AbortSignal): Promise<void> {
    const { manifest, clock, teller } = this.#options;
    this.#mustVerify = false;
    const began = clock.now();
    this.#folders.retry();
    await manifest.scanAll(signal);
    teller.isTelling = true;
    if (!this.#mustVerify) teller.wasOpen = undefined;
    this.#verifiedAtMs = clock.now();
    this.#folders.tookMs(clock.now() - began);
  }

  async #tellCoverage(signal: AbortSignal): Promise<void> {
    const { kernel, log } = this.#options;
    const { fault } = this.#folders;
    if (fault) return this.#tellUnavailable(fault);
    if (!this.#isHeard || !(await kernel.barrier(signal))) return this.#tellUnavailable(deaf());
    if (this.#state.kind === "available" || this.#mustCover) return;
    this.#state = { kind: "available" };
    log.append({ kind: "available" });
  }

  /** Follows hints until everything has to be watched anew. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    let triedAtMs = clock.now();
    while (!this.#mustCover) {
      const cause = await this.#waitForCause(signal);
      if (this.#mustCover) return;
      if (cause === "hints") await clock.sleep(settleMs, { signal });
      await this.#process(signal);
      await this.#readAgain(signal);
      if (this.#state.kind === "available" && this.#folders.isRefused) await this.#tellCoverage(signal);
      const isVerifyDue = clock.now() - this.#verifiedAtMs >= verifyEveryMs;
      if (this.#mustVerify || isVerifyDue) await this.#scanAll(signal);
      if (clock.now() - triedAtMs < this.#everyMs) continue;
      triedAtMs = clock.now();
      await this.#lookAround(signal);
    }
  }

  /** On the timer: whether the kernel still answers; where it does not, everything is looked at. */
  async #lookAround(signal: AbortSignal): Promise<void> {
    const { kernel } = this.#options;
    if (this.#state.kind === "available") {
      if (await kernel.barrier(signal)) return;
      this.#tellUnavailable(deaf());
      this.#mustCover = true;
      return;
    }
    if (this.#state.fault?.details["reason"] === "watch_ended") this.#mustCover = true;
    if (this.#mustCover || !this.#folders.isScanDue()) return;
    await this.#scanAll(signal);
    await this.#tellCoverage(signal);
  }

  /** Between two looks on the timer. */
  get #everyMs(): number {
    const { scanEveryMs } = this.#options;
    // Half of it, since the kernel has time to answer.
    return Math.min(scanEveryMs / 2, this.#state.kind === "available" ? Infinity : blindEveryMs);
  }

  async #readAgain(signal: AbortSignal): Promise<void> {
    const { teller, manifest, clock } = this.#options;
    if (teller.readAgainAtMs > clock.now()) return;
    await manifest.change(signal, async () => {
      for (const path of await teller.readAgain()) this.#folders.hintAt(path);
    });
  }

  async #waitForCause(signal: AbortSignal): Promise<Cause> {
    const { clock, teller } = this.#options;
    if (this.#folders.hasHints || this.#mustVerify) return "hints";
    const over = new AbortController();
    const ended = AbortSignal.any([signal, over.signal]);
    const waitMs = Math.min(this.#everyMs, teller.readAgainAtMs - clock.now());
    const timer = clock.sleep(Math.max(1, waitMs), { signal: ended });
    return Promise.race([
      this.#hint.promise.then((): Cause => "hints"),
      timer.then((): Cause => "time"),
    ]).finally(() => {
      timer.catch(() => undefined);
      over.abort();
    });
  }

  /** Looks at all that was hinted at. */
  async #process(signal: AbortSignal): Promise<void> {
    const { manifest, teller } = this.#options;
    await manifest.change(signal, async (options) => {
      const waitedFor = this.#hint;
      this.#hint = Promise.withResolvers();
      // Whoever waits for the old one would not hear of the next hint.
      waitedFor.resolve();
      const hints = this.#folders.takeHints();
      if (hints.count >= manyHints) this.#mustVerify = true;
      teller.orderOf = (path) => hints.order.get(path);
      for (const [folder, names] of hints.folders) await this.#lookAt(folder, names, options);
    });
  }

  async #lookAt(folder: KnownFolder, names: ReadonlySet<string>, options: ScanOptions): Promise<void> {
    const path = pathIn(this.#options.manifest.top, folder);
    if (path === undefined) return;
    const wasWatched = this.#folders.isWatched(folder);
    if (!wasWatched) await this.#folders.ensure(folder, path);
    const isFew = wasWatched && names.size * 8 < folder.entries.size;
    // A name that is no UTF-8 comes mangled.
    const isNamed = isFew && ![...names].some((name) => name === "" || name.includes("\ufffd"));
    const found = isNamed
      ? await scanNames(folder, path, { ...options, names })
      : await scanFolder(folder, path, options);
    for (const below of found) {
      await scanTree(below, appendPath(path, below.name as WorkspacePath), options);
    }
  }

  /** The kernel's queue was full: what it does not tell is looked for, and who listens is told to compare. */
  #lose(): void {
    this.#options.log.append({ kind: "gap" });
    this.#mustVerify = true;
    this.#wake();
  }

  #cover(): void {
    this.#mustCover = true;
    this.#wake();
  }

  #wake(): void {
    this.#hint.resolve();
  }

  #tellUnavailable(fault: Fault): void {
    if (this.#state.kind === "unavailable" && isSameTrouble(this.#state.fault, fault)) return;
    this.#state = { kind: "unavailable", fault };
    this.#options.log.append({ kind: "unavailable", fault });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }
}

function isSameTrouble(a: Fault | undefined, b: Fault): boolean {
  return a?.code === b.code && ["reason", "covered"].every((key) => a.details[key] === b.details[key]);
}

function deaf(): Fault {
  return new Fault("IO_ERROR", "the kernel's watch has ended without a word", {
    details: { reason: "watch_ended" },
    hint: "the node looks on a timer, and tries to watch again by itself",
  });
}

function notYet(): Fault {
  return new Fault("WORKSPACE_ACCESS_UNAVAILABLE", "the watch has not begun yet", {
    details: { reason: "not_started" },
  });
}
