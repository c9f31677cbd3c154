import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { type Fault, isFault, toFaultJson } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { toChunks } from "./chunks.ts";
import type { MemoryIndex } from "./memory-index.ts";
import { type MemoryListing, type NodeCall, readMemoryFile } from "./node-files.ts";

/** What `IndexWriter` needs. */
export interface IndexWriterOptions {
  readonly clock: Clock;
  /** Called after the index has another content. */
  readonly onChange: () => void;
}

const readsAtOnce = 8;
const longestTurnMs = 15;

/** Brings an index to what its node has: files that changed are read one by one, the others are left alone. */
export class IndexWriter {
  /** Files that are known to have changed and are not in the index yet. */
  readonly changed: Set<string> = new Set();
  readonly #options: IndexWriterOptions;
  #turnBeganAt = 0;

  constructor(options: IndexWriterOptions) {
    this.#options = options;
  }

  /** Takes out what the node has no more, notes what it could not serve, and marks what differs as changed. */
  async compare(index: MemoryIndex, listing: MemoryListing, signal: AbortSignal): Promise<void> {
    for (const path of index.files.keys()) {
      if (listing.files.has(path) || listing.skipped.has(path)) continue;
      this.#remove(index, path);
      await this.#breathe(signal);
    }
    for (const [path, fault] of listing.skipped) {
      this.#putFault(index, { path, fault, mayPass: false });
      await this.#breathe(signal);
    }
    for (const [path, file] of listing.files) {
      if (index.files.get(path)?.digest !== file.digest) this.changed.add(path);
    }
  }

  /** Reads what is marked as changed. A file that cannot be read is noted as failed, and the others are read. */
  async readChanged(index: MemoryIndex, call: NodeCall): Promise<void> {
    const paths = [...this.changed];
    const readNext = async (): Promise<void> => {
      for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
        // Taken off first: a change that is told while the file is read puts it back on.
        this.changed.delete(path);
        try {
          await this.#readOne(index, call, path);
        } catch (error) {
          this.changed.add(path);
          throw error;
        }
        await this.#breathe(call.signal);
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: readsAtOnce }, readNext));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  async #readOne(index: MemoryIndex, call: NodeCall, path: string): Promise<void> {
    try {
      const answer = await readMemoryFile(call, path, this.#options.clock);
      call.signal.throwIfAborted();
      if (!answer) return this.#remove(index, path);
      const sizeBytes = Buffer.byteLength(answer.text);
      index.put(path, { digest: answer.digest, sizeBytes, fault: undefined }, toChunks(answer.text));
      this.#options.onChange();
    } catch (error) {
      call.signal.throwIfAborted();
      if (!isFault(error)) throw error;
      this.#putFault(index, { path, fault: error, mayPass: true });
    }
  }

  /** A file with a fault has no digest in the index, so the next comparison finds it different and reads it again. */
  #putFault(
    index: MemoryIndex,
    file: { readonly path: string; readonly fault: Fault; readonly mayPass: boolean },
  ): void {
    const known = index.files.get(file.path)?.fault;
    if (known?.code === file.fault.code && known.message === file.fault.message) return;
    const fault = { ...toFaultJson(faultFromError(file.fault)), retryable: file.mayPass };
    index.put(file.path, { digest: "", sizeBytes: 0, fault }, []);
    this.#options.onChange();
  }

  #remove(index: MemoryIndex, path: string): void {
    if (!index.files.has(path)) return;
    index.remove(path);
    this.#options.onChange();
  }

  /** Lets others have their turn when this one was long. */
  async #breathe(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#turnBeganAt < longestTurnMs) return;
    await this.#options.clock.sleep(0, { signal });
    this.#turnBeganAt = performance.now();
  }
}
