import { open } from "node:fs/promises";
import path from "node:path";
import type { State } from "../../shared/gen/fairlead/v1/state_pb.ts";
import { removePrivate } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import { writeBackup } from "../store/backup.ts";
import type { Store } from "../store/store.ts";

/** What the service stands on. */
export interface StateFaceOptions {
  readonly store: Store;
  /** The gateway's folder; copies are staged in it. */
  readonly dir: string;
  readonly version: string;
  readonly clock: Clock;
}

const chunkBytes = 256 * 1024;

/** The service that copies the state. Whoever serves it has checked who asks. */
export function createStateFace(options: StateFaceOptions): ServiceImplementation<typeof State> {
  let running = Promise.resolve();
  return {
    backup: async function* (_, { signal }) {
      // One at a time: each takes as much of the disk as the state.
      const before = running;
      const done = Promise.withResolvers<void>();
      running = done.promise;
      const file = path.join(options.dir, "backup.new");
      try {
        await before;
        signal.throwIfAborted();
        await removePrivate(file);
        const { store, dir, version, clock } = options;
        await writeBackup({ store, dir, file, version, now: clock.now() });
        yield* readChunks(file, signal);
      } finally {
        await removePrivate(file).finally(() => done.resolve());
      }
    },
  };
}

async function* readChunks(file: string, signal: AbortSignal): AsyncGenerator<{ bytes: Uint8Array }> {
  await using handle = await open(file, "r");
  for (;;) {
    signal.throwIfAborted();
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(chunkBytes), 0, chunkBytes);
    if (bytesRead === 0) return;
    yield { bytes: buffer.subarray(0, bytesRead) };
  }
}
