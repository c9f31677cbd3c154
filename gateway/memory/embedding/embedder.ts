import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { type Fault, type FaultJson, toFaultJson } from "../../../shared/fault/fault.ts";
import { createBackoff } from "../../../shared/lifetime/backoff.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import type { Log } from "../../../shared/log/log.ts";
import type { QueryVector } from "../memory-index.ts";
import type { EmbeddingProvider, EmbedOptions } from "./embedding-provider.ts";

/** How it stands with vectors. */
export interface EmbedderStanding {
  /** The provider's kind; `none` without one. */
  readonly provider: string;
  /** Its model; empty without one. */
  readonly model: string;
  readonly state: "none" | "ready" | "unavailable";
  /** What went wrong last; undefined since it last went well. */
  readonly fault: FaultJson | undefined;
  /** Until when it is left alone, in milliseconds since 1970; 0 when it may be asked. */
  readonly retryAtMs: number;
}

/** What `createEmbedder` takes. */
export interface EmbedderOptions {
  /** Undefined: there are no vectors. */
  readonly provider: EmbeddingProvider | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Asks the provider and remembers how it stands: one that fails is left alone for the time that it named. */
export interface Embedder {
  readonly provider: EmbeddingProvider | undefined;
  readonly standing: EmbedderStanding;
  /** How long the provider is still to be left alone, in milliseconds. */
  waitMs(): number;
  /** The vector of a query; undefined when the provider is not there or fails. Rejects only when the signal aborts. */
  embedQuery(text: string, signal: AbortSignal): Promise<QueryVector | undefined>;
  /** Vectors of texts, in order; rejects with a Fault. */
  embedTexts(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]>;
}

/** Queries whose vectors are remembered. */
const rememberedQueries = 100;

/** What is taken as a hint about the texts, and not about the provider: others are tried meanwhile. */
export function isAboutTexts(fault: Fault): boolean {
  return fault.code === "INVALID_ARGUMENT" || fault.code === "INTEGRITY_FAILURE";
}

/** An embedder that has not asked yet. */
export function createEmbedder(options: EmbedderOptions): Embedder {
  return new AskingEmbedder(options);
}

class AskingEmbedder implements Embedder {
  readonly provider: EmbeddingProvider | undefined;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #backoff = createBackoff({ firstMs: 1_000, maxMs: 300_000 });
  readonly #queries = new Map<string, QueryVector>();
  #fault: FaultJson | undefined;
  #retryAtMs = 0;

  constructor({ provider, clock, log }: EmbedderOptions) {
    this.provider = provider;
    this.#clock = clock;
    this.#log = log;
  }

  get standing(): EmbedderStanding {
    const { kind = "none", model = "" } = this.provider ?? {};
    const fault = this.#fault;
    const state = !this.provider ? "none" : fault ? "unavailable" : "ready";
    return { provider: kind, model, state, fault, retryAtMs: this.waitMs() > 0 ? this.#retryAtMs : 0 };
  }

  waitMs(): number {
    return Math.max(0, this.#retryAtMs - this.#clock.now());
  }

  async embedQuery(text: string, signal: AbortSignal): Promise<QueryVector | undefined> {
    if (!this.provider) return undefined;
    const known = this.#queries.get(text);
    if (known) return known;
    if (this.waitMs() > 0) return undefined;
    try {
      const [vector] = await this.#ask([text], { signal, urgency: "search" });
      if (!vector) return undefined;
      const found = { identity: this.provider.identity, vector };
      this.#queries.set(text, found);
      if (this.#queries.size > rememberedQueries) {
        this.#queries.delete(this.#queries.keys().next().value ?? "");
      }
      return found;
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  async embedTexts(texts: readonly string[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    return await this.#ask(texts, { signal, urgency: "index" });
  }

  async #ask(texts: readonly string[], options: EmbedOptions): Promise<readonly Float32Array[]> {
    if (!this.provider) return [];
    try {
      const vectors = await this.provider.embed(texts, options);
      this.#succeed();
      return vectors;
    } catch (error) {
      options.signal.throwIfAborted();
      throw this.#fail(error);
    }
  }

  #succeed(): void {
    if (this.#fault) this.#log.info("the embedding provider answers again");
    this.#fault = undefined;
    this.#retryAtMs = 0;
    this.#backoff.reset();
  }

  #fail(error: unknown): Fault {
    const failure = faultFromError(error);
    if (!isAboutTexts(failure)) {
      const named = failure.details["retryAfterMs"];
      // A part of the wait is certain: a provider in trouble is not asked again at once.
      const waitMs = typeof named === "number" ? named : 500 + this.#backoff.next();
      this.#retryAtMs = Math.max(this.#retryAtMs, Math.ceil(this.#clock.now() + waitMs));
    }
    if (this.#fault?.message !== failure.message) {
      this.#log.warn("the embedding provider failed", { error: failure });
    }
    this.#fault = toFaultJson(failure);
    return failure;
  }
}
