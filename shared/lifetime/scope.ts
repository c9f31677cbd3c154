import { Fault } from "../fault/fault.ts";

/** A task that a scope owns. It must heed the signal, and never wait for the end of its own scope. */
export type Task = (signal: AbortSignal) => Promise<void>;

/**
 * Owns what was started: tasks, timers, connections, folders. Ending a scope aborts its signal with the first reason,
 * waits for its tasks, then disposes what it holds in reverse order. A task that fails ends its scope with that error:
 * nothing fails alone. Ending twice is harmless.
 */
export class Scope implements AsyncDisposable {
  readonly #name: string;
  readonly #stack = new AsyncDisposableStack();
  readonly #controller = new AbortController();
  readonly #tasks = new Set<Promise<void>>();
  readonly #closed = Promise.withResolvers<unknown>();
  #unlink: () => void = () => undefined;
  #ending: Promise<void> | undefined;

  /** A scope that also ends when `parent` aborts. */
  constructor(name: string, parent?: AbortSignal) {
    this.#name = name;
    if (!parent) return;
    const onAbort = (): void => void this.end(parent.reason).catch(() => undefined);
    if (parent.aborted) {
      onAbort();
      return;
    }
    parent.addEventListener("abort", onAbort, { once: true });
    this.#unlink = () => parent.removeEventListener("abort", onAbort);
  }

  /** Aborts when the scope ends; its reason is why. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the reason once everything has ended; never rejects. */
  get closed(): Promise<unknown> {
    return this.#closed.promise;
  }

  /** Takes ownership of `thing` and gives it back. */
  use<T extends AsyncDisposable | Disposable>(thing: T): T {
    return this.#stack.use(thing);
  }

  /** Runs `cleanUp` when the scope ends. */
  defer(cleanUp: () => void | Promise<void>): void {
    this.#stack.defer(cleanUp);
  }

  /** Starts a task that the scope owns. A failure that is not the scope's own end becomes the scope's reason. */
  spawn(name: string, task: Task): void {
    if (this.signal.aborted) return;
    const running = task(this.signal).catch((error: unknown) => {
      if (this.signal.aborted) return;
      const reason =
        error instanceof Fault ? error : new Error(`${this.#name}: ${name} failed`, { cause: error });
      void this.end(reason).catch(() => undefined);
    });
    this.#tasks.add(running);
    void running.finally(() => void this.#tasks.delete(running));
  }

  /** Ends the scope; resolves when all of it has ended. The first reason is kept. */
  end(reason?: unknown): Promise<void> {
    this.#ending ??= this.#end(reason ?? new Fault("CANCELLED", `${this.#name} ended`));
    return this.#ending;
  }

  async #end(reason: unknown): Promise<void> {
    this.#unlink();
    this.#controller.abort(reason);
    // Ending may be called from inside a task: never wait for oneself before the abort was seen.
    await Promise.resolve();
    try {
      await Promise.allSettled(this.#tasks);
      await this.#stack.disposeAsync();
    } finally {
      this.#closed.resolve(reason);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}
