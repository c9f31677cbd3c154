import path from "node:path";
import { Fault, isFault } from "../../../../shared/fault/fault.ts";
import { makePrivateFolder } from "../../../../shared/identity/private-files.ts";
import { lockFile } from "../../../../shared/process/home-lock.ts";
import { partKeyOf } from "../part-key.ts";
import type { StatePlace } from "./sync-state.ts";

/** What a sync changes. */
export interface SyncTarget {
  /** The folder that is made like the other. */
  readonly target: string;
  /** Where what is remembered of the two folders is kept. */
  readonly place: StatePlace;
}

/**
 * Holds the target and the memory of a sync for this process until it is disposed: of two that write the same files each
 * would find the other's. `CONFLICT` at once while another process of this home holds one of them.
 */
export async function holdTarget({ target, place: { dir, key } }: SyncTarget): Promise<Disposable> {
  const folder = path.join(dir, "sync");
  await makePrivateFolder(folder);
  using stack = new DisposableStack();
  for (const name of [partKeyOf("", target), key]) {
    try {
      stack.use(lockFile(path.join(folder, `${name}.lock`), { waitMs: 0 }));
    } catch (error) {
      if (!isFault(error, "CONFLICT")) throw error;
      throw new Fault("CONFLICT", `another sync of ${target} runs`, {
        details: { path: target, reason: "sync_runs" },
        hint: "wait until it has ended, and repeat the command",
        cause: error,
      });
    }
  }
  return stack.move();
}
