import type { DescService } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, raceSignal, startDeadline, systemClock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import type { Client } from "../../shared/rpc/service.ts";
import type { WorkerKind } from "./worker-argv.ts";
import { startWorkerProcess, type WorkerEnvironment, type WorkerProcess } from "./worker-process.ts";

/** What a worker is started with; read again at every start. */
export interface WorkerPlan {
  /** Sent to it as JSON. */
  readonly settings: unknown;
  /** The folders that it reads. */
  readonly dirs: readonly string[];
}

/** What `startWorker` takes. */
export interface WorkerOptions {
  readonly kind: WorkerKind;
  readonly plan: () => WorkerPlan;
  readonly environment: WorkerEnvironment;
  readonly clock?: Clock;
  readonly log: Log;
}

/** A worker process that is started again whenever it ends. Disposing it ends the process for good. */
export interface Worker extends AsyncDisposable {
  /** A client of the process that runs; waits up to five seconds for one that is being started. */
  client<S extends DescService>(service: S, options: { readonly signal: AbortSignal }): Promise<Client<S>>;
  /** Ends the process; the next one starts at once with the plan of that moment. */
  restart(): Promise<void>;
  /** The id of the process that runs; undefined between two. */
  readonly pid: number | undefined;
}

const waitForMs = 5000;
/** A worker that ran so long was no failed start: the next begins without waiting. */
const steadyMs = 10_000;

/** Starts a worker process and keeps one running. */
export function startWorker(options: WorkerOptions): Worker {
  return new RestartingWorker(options);
}

class RestartingWorker implements Worker {
  readonly #options: WorkerOptions;
  readonly #clock: Clock;
  readonly #scope: Scope;
  #process: WorkerProcess | undefined;
  /** The one that was told to end. */
  #ordered: WorkerProcess | undefined;
  #next: PromiseWithResolvers<WorkerProcess> = Promise.withResolvers();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#scope = new Scope(`${options.kind} worker`);
    this.#scope.spawn("run", (signal) => this.#keepRunning(signal));
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  async client<S extends DescService>(
    service: S,
    options: { readonly signal: AbortSignal },
  ): Promise<Client<S>> {
    if (this.#scope.signal.aborted) throw this.#scope.signal.reason;
    if (this.#process) return this.#process.stdio.client(service);
    using patience = startDeadline({
      timeoutMs: waitForMs,
      signal: AbortSignal.any([options.signal, this.#scope.signal]),
      clock: this.#clock,
      fault: () =>
        new Fault("IO_ERROR", `the ${this.#options.kind} worker does not start`, {
          retryable: true,
          details: { reason: "worker_gone" },
        }),
    });
    const started = await raceSignal(this.#next.promise, patience.signal);
    return started.stdio.client(service);
  }

  async restart(): Promise<void> {
    const running = this.#process;
    if (!running) return;
    this.#ordered = running;
    this.#forget(running);
    await running[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  async #keepRunning(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ firstMs: 200, maxMs: 5000 });
    while (!signal.aborted) {
      const startedAt = this.#clock.now();
      await this.#runOnce(signal);
      if (signal.aborted) return;
      if (this.#clock.now() - startedAt >= steadyMs) backoff.reset();
      await this.#clock.sleep(backoff.next(), { signal });
    }
  }

  async #runOnce(signal: AbortSignal): Promise<void> {
    const { kind, environment, log } = this.#options;
    await using running = startWorkerProcess({
      kind,
      environment,
      log,
      clock: this.#clock,
      ...this.#options.plan(),
    });
    this.#process = running;
    this.#next.resolve(running);
    // Its output ends before its end is told: no call may be given to it in between.
    void running.stdio.closed.then(() => this.#forget(running));
    log.debug("a worker was started", { kind, pid: running.pid });
    try {
      const how = await raceSignal(running.exited, signal);
      const level = this.#ordered === running ? "debug" : "warn";
      log[level]("a worker has ended", { kind, pid: running.pid, how });
    } catch {
      // The worker is to end for good: leaving the block ends it.
    } finally {
      this.#forget(running);
    }
  }

  #forget(running: WorkerProcess): void {
    if (this.#process !== running) return;
    this.#process = undefined;
    this.#next = Promise.withResolvers();
    // Nobody may be waiting when the worker ends for good.
    this.#next.promise.catch(() => undefined);
  }
}
