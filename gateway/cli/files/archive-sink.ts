import { createGzip, type Gzip } from "node:zlib";
import type { StagedFile } from "../../../shared/root/root-handle.ts";

/** Where the bytes of an archive go. Disposing it ends what runs for it. */
export interface ArchiveSink extends AsyncDisposable {
  /** Takes the next bytes; the buffer is the caller's again once it resolves. Faults as `StagedFile.write`. */
  write(bytes: Uint8Array): Promise<void>;
  /** Once nothing more comes: all of it is written. */
  finish(): Promise<void>;
}

/** The bytes as they are. */
export function openPlainSink(stage: Pick<StagedFile, "write">): ArchiveSink {
  return {
    write: (bytes) => stage.write(bytes),
    finish: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** The bytes packed with gzip, in constant memory. */
export function openGzipSink(stage: Pick<StagedFile, "write">): ArchiveSink {
  return new GzipSink(stage);
}

class GzipSink implements ArchiveSink {
  readonly #gzip: Gzip = createGzip();
  readonly #written: Promise<void>;

  constructor(stage: Pick<StagedFile, "write">) {
    this.#written = this.#carry(stage);
    // Whoever writes next hears of it.
    this.#written.catch(() => undefined);
  }

  async #carry(stage: Pick<StagedFile, "write">): Promise<void> {
    for await (const packed of this.#gzip) await stage.write(packed as Uint8Array);
  }

  async write(bytes: Uint8Array): Promise<void> {
    const taken = Promise.withResolvers<undefined>();
    this.#gzip.write(bytes, (error) => (error ? taken.reject(error) : taken.resolve(undefined)));
    try {
      await taken.promise;
    } catch (error) {
      // What could not be written ended the packing: that is the reason.
      await this.#written;
      throw error;
    }
  }

  async finish(): Promise<void> {
    this.#gzip.end();
    await this.#written;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#gzip.destroy();
    await this.#written.catch(() => undefined);
  }
}
