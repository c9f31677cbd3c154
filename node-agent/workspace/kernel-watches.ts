import { type FSWatcher, readFileSync, watch } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { makePrivateFolder } from "../../shared/identity/private-files.ts";
import { type Clock, raceSignal, startDeadline } from "../../shared/lifetime/clock.ts";

/** A watch of one folder's own entries, as Node opens it. */
export type OpenWatch = typeof watch;

/** What the kernel's watches of this process stand on. */
export interface KernelWatchesOptions {
  /** A folder of this program's own, for the cookies. */
  readonly dir: string;
  readonly clock: Clock;
  /** Node's own by default; a test puts one that breaks. */
  readonly open?: OpenWatch;
  /** Where the kernel's limits stand; `/proc/sys` by default. */
  readonly limitsDir?: string;
}

/** What a watched folder says. All of it is a hint: look. */
export interface FolderListener {
  /** Something happened to this entry; `isRename` where the name came or went. */
  onHint(name: string, isRename: boolean): void;
  /** The folder itself was moved or removed. */
  onSelf(): void;
  /** The kernel watches it no more. */
  onEnd(fault: Fault): void;
}

/** The kernel's limit of watches, as far as this process can tell. */
export interface WatchLimit {
  /** Folders that may be watched in all. */
  readonly limit: number;
  /** The setting that raises it. */
  readonly setting: string;
  /** Watched by this process. */
  readonly used: number;
  /** Whether the kernel refused one since the limit was last seen to be raised. */
  readonly isReached: boolean;
}

/** How long a cookie may take to be seen, in milliseconds. */
const cookieMs = 2_000;
/** Of the kernel's queue: hints of one turn beyond it mean that others were lost. */
const fullShare = 0.9;
const queuedByDefault = 16_384;

/**
 * The kernel's watches of this process. They share one queue in the kernel, in order: a file that is made in a folder of
 * our own is heard of after everything that happened before, in any folder. The owner disposes it.
 */
export class KernelWatches implements Disposable {
  readonly #options: KernelWatchesOptions;
  readonly #overflowing = new Set<() => void>();
  readonly #cookies = new Map<string, PromiseWithResolvers<void>>();
  #cookieWatch: FSWatcher | undefined;
  #used = 0;
  #hintsOfTurn = 0;
  #queued: number | undefined;
  #cookieCount = 0;
  #refusedAt = 0;

  constructor(options: KernelWatchesOptions) {
    this.#options = options;
  }

  /** Tells `listener` of a folder, named by a path that leads to the open folder itself. Fails with `LIMIT_REACHED`. */
  watch(procPath: string, listener: FolderListener): Disposable {
    const self = basename(procPath);
    const opened = this.#open(procPath, (event, name) => {
      if (event === "rename" && name === self) listener.onSelf();
      listener.onHint(name, event === "rename");
    });
    opened.on("error", (error) => listener.onEnd(toFault(error)));
    this.#used += 1;
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (!isOpen) return;
        isOpen = false;
        this.#used -= 1;
        opened.close();
      },
    };
  }

  /** Tells `listener` when hints were lost, of whatever folder. */
  onOverflow(listener: () => void): Disposable {
    this.#overflowing.add(listener);
    return { [Symbol.dispose]: () => void this.#overflowing.delete(listener) };
  }

  /** Resolves once every hint of what happened before was given; with false when the kernel does not answer. */
  async barrier(signal: AbortSignal): Promise<boolean> {
    const { dir, clock } = this.#options;
    if (!this.#cookieWatch) await makePrivateFolder(dir);
    signal.throwIfAborted();
    this.#cookieWatch ??= this.#watchCookies();
    this.#cookieCount += 1;
    const name = `cookie-${this.#cookieCount}`;
    const seen = Promise.withResolvers<void>();
    this.#cookies.set(name, seen);
    using deadline = startDeadline({ timeoutMs: cookieMs, signal, clock });
    try {
      await writeFile(join(dir, name), "");
      await raceSignal(seen.promise, deadline.signal);
      return true;
    } catch {
      signal.throwIfAborted();
      // It is made anew next time: this one may be deaf.
      this.#cookieWatch?.close();
      this.#cookieWatch = undefined;
      return false;
    } finally {
      this.#cookies.delete(name);
      await rm(join(dir, name), { force: true });
    }
  }

  /** The limit that bounds this process. */
  limit(): WatchLimit {
    const { limit, setting } = this.#readLimit();
    // One that was raised since is not reached until the kernel says so again.
    const isReached = this.#used > 0 && this.#refusedAt > 0 && limit <= this.#refusedAt;
    return { limit, setting, used: this.#used, isReached };
  }

  #readLimit(): { readonly limit: number; readonly setting: string } {
    const all = { limit: this.#read("fs/inotify/max_user_watches"), setting: "fs.inotify.max_user_watches" };
    const own = { limit: this.#read("user/max_inotify_watches"), setting: "user.max_inotify_watches" };
    return own.limit < all.limit ? own : all;
  }

  #watchCookies(): FSWatcher {
    const opened = this.#open(this.#options.dir, (_, name) => this.#cookies.get(name)?.resolve());
    opened.on("error", () => undefined);
    return opened;
  }

  #open(path: string, onEvent: (event: string, name: string) => void): FSWatcher {
    const open = this.#options.open ?? watch;
    try {
      return open(path, { persistent: false }, (event, name) => {
        this.#count();
        onEvent(event, name ?? "");
      });
    } catch (error) {
      if (errnoOf(error) === "ENOSPC") this.#refusedAt = this.#readLimit().limit;
      throw toFault(error, this.limit());
    }
  }

  /** The kernel hands over all that it holds in one turn: as much as it can hold means that there was more. */
  #count(): void {
    this.#hintsOfTurn += 1;
    if (this.#hintsOfTurn === 1) setImmediate(() => void (this.#hintsOfTurn = 0));
    this.#queued ??= this.#read("fs/inotify/max_queued_events", queuedByDefault);
    if (this.#hintsOfTurn !== Math.floor(this.#queued * fullShare)) return;
    for (const listener of this.#overflowing) listener();
  }

  #read(name: string, otherwise = Infinity): number {
    try {
      return Number(readFileSync(join(this.#options.limitsDir ?? "/proc/sys", name), "utf8"));
    } catch {
      return otherwise;
    }
  }

  [Symbol.dispose](): void {
    this.#cookieWatch?.close();
    this.#cookieWatch = undefined;
  }
}

function toFault(error: unknown, limit?: WatchLimit): Fault {
  const errno = errnoOf(error);
  if (errno === "ENOSPC" && limit) {
    return new Fault("LIMIT_REACHED", `the kernel watches no more folders for this user (${limit.setting})`, {
      details: { limit: limit.limit, actual: limit.used, reason: "watch_limit", setting: limit.setting },
      hint: `raise it on the node: sysctl ${limit.setting}=${Math.max(524_288, limit.limit * 2)}`,
    });
  }
  return new Fault("IO_ERROR", `the kernel does not watch a folder (${errno ?? "unknown"})`, {
    details: { reason: "watch_failed", ...(errno === undefined ? {} : { errno }) },
    cause: error,
  });
}
