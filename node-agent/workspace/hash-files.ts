import { createDigester, digestOf, type Digest } from "../../shared/content/digest.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { appendPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { createPause } from "../../shared/root/linux/pause.ts";
import type { OpenFile, RootHandle } from "../../shared/root/root-handle.ts";
import { eachFolder, identify, type KnownFile, type KnownFolder, outdate } from "./known-tree.ts";

/** What hashing needs. */
export interface HashOptions {
  readonly root: Pick<RootHandle, "openFile">;
  readonly clock: Pick<Clock, "now">;
  readonly signal: AbortSignal;
}

/** What was read. */
export interface HashTally {
  files: number;
  bytes: number;
}

const bufferBytes = 1024 * 1024;

/**
 * Reads every file below `top` whose content is not known, and keeps its digest; one that cannot be read keeps the fault.
 * Gives whether some files were others than was known: their folders are to be scanned again.
 */
export async function hashTree(
  top: KnownFolder,
  path: WorkspacePath,
  options: HashOptions & { readonly tally: HashTally },
): Promise<boolean> {
  const pause = createPause(options.signal);
  let isStale = false;
  for (const [folder, at] of eachFolder(top, path)) {
    for (const [name, known] of folder.entries) {
      if (known.kind !== "file" || known.digest !== undefined || known.fault) continue;
      const outcome = await hashFile(known, appendPath(at, name as WorkspacePath), options);
      outdate(folder);
      if (outcome === "other") isStale = true;
      if (known.digest !== undefined) {
        options.tally.files += 1;
        options.tally.bytes += known.sizeBytes;
      }
      if (pause.isDue()) await pause.take();
    }
  }
  return isStale;
}

/**
 * Reads one file and keeps its digest in its record, or the fault. `other`: what stands there is not the file of the
 * record, or was changed while it was read; the record is as it was.
 */
export async function hashFile(
  known: KnownFile,
  path: WorkspacePath,
  { root, clock, signal }: HashOptions,
): Promise<"kept" | "other"> {
  const hashedAtMs = clock.now();
  try {
    await using file = await root.openFile(path);
    if (!isSameFile(file, known)) return "other";
    const digest = await readDigest(file, signal);
    if (file.hasChanged()) return "other";
    known.digest = digest;
    known.hashedAtMs = hashedAtMs;
    return "kept";
  } catch (error) {
    if (signal.aborted || !isFault(error)) throw error;
    if (error.code === "NOT_FOUND") return "other";
    known.fault = error;
    return "kept";
  }
}

/** What a file is that is never still. */
export function neverStill(path: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `${path} was changed each time it was read`, {
    details: { path },
    hint: "repeat the command when nothing writes to it",
  });
}

function isSameFile({ entry }: OpenFile, known: KnownFile): boolean {
  return (
    identify(entry) === known.id &&
    entry.sizeBytes === known.sizeBytes &&
    entry.mtimeNs === known.mtimeNs &&
    entry.ctimeNs === known.ctimeNs
  );
}

async function readDigest(file: OpenFile, signal: AbortSignal): Promise<Digest> {
  const { sizeBytes } = file.entry;
  if (sizeBytes < bufferBytes) {
    const buffer = Buffer.allocUnsafe(sizeBytes + 1);
    return digestOf(buffer.subarray(0, file.readNow(buffer, 0)));
  }
  const digester = createDigester();
  const buffer = Buffer.allocUnsafe(bufferBytes);
  for (let position = 0; ;) {
    signal.throwIfAborted();
    const count = await file.read(buffer, position);
    digester.update(buffer.subarray(0, count));
    position += count;
    if (count < bufferBytes) return digester.digest();
  }
}
