import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { type FaultJson, isFault, toFaultJson } from "../../shared/fault/fault.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, raceSignal, startDeadline } from "../../shared/lifetime/clock.ts";
import { type Embedder, isAboutTexts } from "./embedding/embedder.ts";
import type { EmbeddingProvider } from "./embedding/embedding-provider.ts";
import type { RemoteIndex } from "./index-host.ts";
import type { MissingVector } from "./vector-store.ts";

/** What `VectorFiller` needs. */
export interface VectorFillerOptions {
  readonly embedder: Embedder;
  readonly clock: Clock;
  /** The index as it is now; undefined while it cannot be used. */
  readonly index: () => RemoteIndex | undefined;
  /** Those of the files whose text on the node is another by now, or gone. They are no more in the index afterwards. */
  readonly dropChanged: (files: ReadonlySet<string>, signal: AbortSignal) => Promise<ReadonlySet<string>>;
  /** Called when the index itself failed. */
  readonly onTrouble: (error: unknown) => Promise<void>;
  /** Called after vectors were stored. */
  readonly onChange: () => void;
}

/** Most passages that are set aside at once because their texts were refused. */
const maxSetAside = 10_000;

/**
 * Embeds what an index has no vectors for, in batches, as many at once as the provider takes. A batch that is refused is
 * set aside for a while and the others go on; a provider that fails is left alone as long as it asked for.
 */
export class VectorFiller {
  readonly #options: VectorFillerOptions;
  readonly #backoff = createBackoff({ firstMs: 2_000, maxMs: 300_000 });
  readonly #aside = new Set<string>();
  #asideFault: FaultJson | undefined;
  /** How often passages that were set aside were refused again: then they are sent in smaller batches. */
  #refusals = 0;
  /** When what was set aside is tried again, in milliseconds since 1970. */
  #retryAt = 0;
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(options: VectorFillerOptions) {
    this.#options = options;
  }

  /** Why passages wait that could be embedded by now; undefined when nothing is known to be wrong. */
  get fault(): FaultJson | undefined {
    return this.#asideFault ?? this.#options.embedder.standing.fault;
  }

  /** There may be something to embed. */
  wake(): void {
    this.#wake.resolve();
  }

  /** Embeds until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { provider } = this.#options.embedder;
    if (!provider) return;
    for (;;) {
      try {
        await this.#options.clock.sleep(this.#options.embedder.waitMs(), { signal });
        if (!(await this.#fillSome(provider, signal))) await this.#rest(signal);
      } catch (error) {
        signal.throwIfAborted();
        // A provider's fault is in its standing; anything else is the index's.
        if (!isFault(error)) await this.#options.onTrouble(error);
        await this.#options.clock.sleep(50, { signal });
      }
    }
  }

  /** Waits for something to do: a call, or the time to try again what was set aside. */
  async #rest(signal: AbortSignal): Promise<void> {
    const called = this.#wake.promise;
    if (this.#aside.size === 0) {
      await raceSignal(called, signal);
    } else {
      const timeoutMs = this.#retryAt - this.#options.clock.now();
      using patience = startDeadline({ timeoutMs, signal, clock: this.#options.clock });
      await raceSignal(called, patience.signal).catch(() => signal.throwIfAborted());
    }
    this.#wake = Promise.withResolvers();
    if (this.#aside.size === 0 || this.#options.clock.now() < this.#retryAt) return;
    this.#aside.clear();
    this.#refusals += 1;
  }

  /** Says whether there was anything to do. */
  async #fillSome(provider: EmbeddingProvider, signal: AbortSignal): Promise<boolean> {
    const index = this.#options.index();
    if (!index || index.missingVectors === 0) return this.#allDone();
    const size = Math.max(1, provider.batchTexts >> this.#refusals);
    const passages = await index.findMissing(size * provider.maxCalls, [...this.#aside]);
    if (passages.length === 0) return this.#aside.size === 0 ? this.#allDone() : false;
    const batches = [];
    for (let at = 0; at < passages.length; at += size) batches.push(passages.slice(at, at + size));
    const ends = await Promise.allSettled(batches.map((batch) => this.#fillOne(index, batch, signal)));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return true;
  }

  #allDone(): boolean {
    this.#asideFault = undefined;
    this.#refusals = 0;
    this.#backoff.reset();
    return false;
  }

  async #fillOne(index: RemoteIndex, batch: readonly MissingVector[], signal: AbortSignal): Promise<void> {
    const { embedder, dropChanged, onChange } = this.#options;
    const { identity = "" } = embedder.provider ?? {};
    let vectors: readonly Float32Array[];
    try {
      vectors = await embedder.embedTexts(
        batch.map(({ text }) => text),
        signal,
      );
    } catch (error) {
      signal.throwIfAborted();
      const fault = faultFromError(error);
      if (!isAboutTexts(fault)) throw fault;
      this.#setAside(batch, toFaultJson(fault));
      return;
    }
    const files = new Set(batch.flatMap((passage) => passage.files));
    const gone = await dropChanged(files, signal);
    // What only files that changed meanwhile hold is no text of any file now.
    const fitting = batch.flatMap(({ digest, files: holders }, at) => {
      const vector = vectors[at];
      return vector && !holders.every((file) => gone.has(file)) ? [{ digest, vector }] : [];
    });
    await index.putVectors(identity, fitting);
    onChange();
  }

  #setAside(batch: readonly MissingVector[], fault: FaultJson): void {
    this.#asideFault = fault;
    if (this.#aside.size === 0) this.#retryAt = this.#options.clock.now() + 500 + this.#backoff.next();
    if (this.#aside.size + batch.length > maxSetAside) this.#aside.clear();
    for (const { digest } of batch) this.#aside.add(digest);
  }
}
