import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Sockets are read into memory that only the garbage collector gives back, and it counts the bytes of a large transfer
 * as reason for one full collection after the other, each as long as the whole heap is large. So the young generation is
 * collected after so many bytes, which takes about a millisecond, and the old one may grow to three times what is alive
 * before it is looked through. Measured: half of the processor time of a transfer, and no more memory.
 */

/** Bytes of large messages between two collections. */
const everyBytes = 8 * 1024 * 1024;

/** Percent by which the heap may grow from one full collection to the next. */
const heapGrowth = 200;

let movedBytes = 0;
let collect: (() => void) | undefined;

/** A large message came, or was made here and sent. */
export function countMoved(sizeBytes: number): void {
  movedBytes += sizeBytes;
  if (movedBytes < everyBytes) return;
  movedBytes = 0;
  collect ??= findCollector();
  collect();
}

/** Node gives the collector's handle only to contexts made while this flag is set. */
function findCollector(): () => void {
  setFlagsFromString(`--heap-growing-percent=${heapGrowth}`);
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof gc !== "function") return () => undefined;
  return () => {
    gc({ type: "minor" });
  };
}
