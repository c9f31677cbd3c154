import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { type Fault, isFault, toFaultJson } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { RemoteIndex } from "./index-host.ts";
import {
  inspectMemoryFiles,
  mayPass,
  type MemoryListing,
  type NodeCall,
  readMemoryFile,
} from "./node-files.ts";

/** What `IndexWriter` needs. */
export interface IndexWriterOptions {
  readonly clock: Clock;
  /** How texts are cut now: what was cut another way is read again. */
  readonly chunking: string;
  /** Called after the index has another content. */
  readonly onChange: () => void;
}

const readsAtOnce = 8;

/** Brings an index to what its node has: files that changed are read one by one, the others are left alone. */
export class IndexWriter {
  /** Files that are known to have changed and are not in the index yet. */
  readonly changed: Set<string> = new Set();
  /** When files that the last list found to differ were changed, in milliseconds since 1970. */
  readonly #modified = new Map<string, number>();
  readonly #options: IndexWriterOptions;

  constructor(options: IndexWriterOptions) {
    this.#options = options;
  }

  /** Takes out what the node has no more, notes what it could not serve, and marks what differs as changed. */
  async compare(index: RemoteIndex, listing: MemoryListing, signal: AbortSignal): Promise<void> {
    for (const path of index.files.keys()) {
      if (listing.files.has(path) || listing.skipped.has(path)) continue;
      await this.#remove(index, path);
      signal.throwIfAborted();
    }
    for (const [path, fault] of listing.skipped) {
      await this.#putFault(index, { path, fault, mayPass: false });
      signal.throwIfAborted();
    }
    for (const [path, { digest, modifiedMs }] of listing.files) {
      const known = index.files.get(path);
      if (known?.digest !== digest || known.chunking !== this.#options.chunking) {
        this.changed.add(path);
        this.#modified.set(path, modifiedMs);
      } else if (known.modifiedMs !== modifiedMs) await index.note(path, modifiedMs);
    }
  }

  /**
   * Those of the files that the node has another text of by now, or none, and those that are marked as changed: their old
   * text goes at once, and they stay marked. What cannot be asked of the node is for the next comparison to find.
   */
  async dropChanged(
    index: RemoteIndex,
    call: NodeCall,
    files: ReadonlySet<string>,
  ): Promise<ReadonlySet<string>> {
    const paths = [...files].filter((path) => index.files.get(path)?.digest !== undefined);
    const before = new Map(paths.map((path) => [path, index.files.get(path)?.digest]));
    const now = await inspectMemoryFiles(call, paths);
    const dropped = new Set<string>();
    for (const path of paths) {
      // One that was read again meanwhile is as it was read then.
      if (now.get(path) === before.get(path) || index.files.get(path)?.digest !== before.get(path)) continue;
      this.changed.add(path);
      await this.#remove(index, path);
      dropped.add(path);
    }
    return dropped;
  }

  /** Reads what is marked as changed. A file that cannot be read is noted as failed, and the others are read. */
  async readChanged(index: RemoteIndex, call: NodeCall): Promise<void> {
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
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: readsAtOnce }, readNext));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  async #readOne(index: RemoteIndex, call: NodeCall, path: string): Promise<void> {
    try {
      const answer = await readMemoryFile(call, path, this.#options.clock);
      call.signal.throwIfAborted();
      if (!answer) return await this.#remove(index, path);
      const sizeBytes = Buffer.byteLength(answer.text);
      // Until the next list says when, a file that was told to have changed is of now.
      const modifiedMs = this.#modified.get(path) ?? this.#options.clock.now();
      this.#modified.delete(path);
      await index.put(path, { digest: answer.digest, sizeBytes, modifiedMs, fault: undefined }, answer.text);
      this.#options.onChange();
    } catch (error) {
      call.signal.throwIfAborted();
      if (!isFault(error)) throw error;
      await this.#putFault(index, { path, fault: error, mayPass: mayPass(error) });
    }
  }

  /** A file with a fault has no digest in the index, so the next comparison finds it different and reads it again. */
  async #putFault(
    index: RemoteIndex,
    file: { readonly path: string; readonly fault: Fault; readonly mayPass: boolean },
  ): Promise<void> {
    const known = index.files.get(file.path)?.fault;
    const fault = { ...toFaultJson(faultFromError(file.fault)), retryable: file.mayPass };
    if (known?.message === fault.message && known.retryable === fault.retryable) return;
    await index.put(file.path, { digest: "", sizeBytes: 0, modifiedMs: 0, fault }, "");
    this.#options.onChange();
  }

  async #remove(index: RemoteIndex, path: string): Promise<void> {
    if (!index.files.has(path)) return;
    await index.remove(path);
    this.#options.onChange();
  }
}
