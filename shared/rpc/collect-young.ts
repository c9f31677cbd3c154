import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Sockets are read into memory that only the garbage collector gives back. It counts the bytes of a large transfer as
 * reason for a full collection long before the young generation is full of the small objects that hold them, and a full
 * one costs as much as the whole heap is large. So the young generation is collected after so many bytes, which costs
 * about a millisecond: half of the processor time of a transfer, and tens of megabytes, were measured.
 */

/** Bytes of large messages, come or gone, between two collections. */
const everyBytes = 16 * 1024 * 1024;

let movedBytes = 0;
let collect: (() => void) | undefined;

/** A large message came or went. */
export function countMoved(sizeBytes: number): void {
  movedBytes += sizeBytes;
  if (movedBytes < everyBytes) return;
  movedBytes = 0;
  collect ??= findCollector();
  collect();
}

/** Node gives the collector's handle only to contexts made while this flag is set. */
function findCollector(): () => void {
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("globalThis.gc");
  setFlagsFromString("--no-expose-gc");
  if (typeof gc !== "function") return () => undefined;
  return () => {
    gc({ type: "minor" });
  };
}
