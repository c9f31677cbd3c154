import { chunkedFromBytes, type ChunkList, listWhole } from "../../../shared/content/chunks.ts";
import { parseDigest } from "../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import type { Source } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { FoundPart } from "../../../shared/root/part.ts";
import type { Precondition, StagedFile, WriteReceipt } from "../../../shared/root/root-handle.ts";
import { DeltaBase, isBaseChanged, toWireList } from "../../../shared/tree/delta.ts";
import { requirePossible } from "../../../shared/tree/tree-rules.ts";
import type { LocalPlace } from "./local-place.ts";
import { resumableFromBytes } from "./part-key.ts";
import { openParts, type Parts } from "./read-parts.ts";
import type { Transfer } from "./transfer.ts";

/** One file that is fetched. */
export interface FetchJob {
  readonly workspace: string;
  readonly path: string;
  readonly place: Omit<LocalPlace, typeof Symbol.asyncDispose>;
  /** As far as it is known; undefined: the read will say it. */
  readonly sizeBytes: number | undefined;
  readonly precondition: Precondition;
  /** Under which a part of it is kept. */
  readonly partKey: string;
}

/** What was fetched. */
export interface FetchedFile {
  readonly receipt: WriteReceipt;
  readonly source: Source | undefined;
}

/**
 * Fetches a file: staged beside its target, verified, renamed. What an earlier try left is not fetched again where the file
 * still begins with it, nor what a large file that is replaced has of it; the digest is that of the whole. Cut off, it
 * leaves what came; interrupted, nothing.
 */
export async function fetchFile(transfer: Transfer, job: FetchJob): Promise<FetchedFile> {
  await using standing = await openStanding(transfer, job);
  try {
    return await fetchOnto(transfer, job, standing);
  } catch (error) {
    if (!isBaseChanged(error)) throw error;
    return await fetchOnto(transfer, job, undefined);
  }
}

/** The file that is replaced, where parts of it may be used again. Disposing closes it. */
interface Standing extends AsyncDisposable {
  readonly chunks: ChunkList;
  readonly base: DeltaBase;
}

async function openStanding(
  { signal, onReused }: Transfer,
  { place, sizeBytes, precondition }: FetchJob,
): Promise<Standing | undefined> {
  if (precondition.kind === "absent") return undefined;
  if (sizeBytes !== undefined && sizeBytes < chunkedFromBytes) return undefined;
  await using stack = new AsyncDisposableStack();
  try {
    const file = stack.use(await place.root.openFile(place.path));
    const chunks = await listWhole(file, {
      sizeBytes: file.entry.sizeBytes,
      signal,
      onRead: () => onReused(0),
    });
    if (!chunks) return undefined;
    const owned = stack.move();
    return { chunks, base: new DeltaBase(file), [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } catch (error) {
    // Nothing stands there, or nothing that can be read: the write says what it makes of it.
    if (isFault(error) && !signal.aborted) return undefined;
    throw error;
  }
}

async function fetchOnto(
  transfer: Transfer,
  job: FetchJob,
  standing: Standing | undefined,
): Promise<FetchedFile> {
  const { workspace, path, place, precondition, partKey: key } = job;
  const held = await findHeld(transfer, job);
  const request = {
    workspace,
    path,
    acceptsPacked: true,
    ...(held ? { resumeBytes: BigInt(held.sizeBytes), resumeDigest: held.digest } : {}),
    ...(standing ? { knownChunks: toWireList(standing.chunks) } : {}),
  };
  await using parts = openParts(transfer.files.read(request, transfer.call));
  const { entry, source, resumedBytes } = await parts.header();
  if (entry) requirePossible({ path: place.shown, sizeBytes: entry.sizeBytes });
  const announcedBytes = Number(entry?.sizeBytes ?? 0n);
  const sizeBytes = job.sizeBytes ?? announcedBytes;
  if (job.sizeBytes === undefined) transfer.onTotal(sizeBytes);
  const resumes = held !== undefined && resumedBytes === BigInt(held.sizeBytes);
  if (!resumes && resumedBytes !== 0n)
    throw new Fault("INTEGRITY_FAILURE", "the file goes on where nothing is");
  if (held && !resumes) await place.root.dropPart(place.path, { key });
  await using stage = await place.root.stageWrite(place.path, {
    ...(entry ? { mode: entry.mode & 0o777, mtimeNs: entry.modifiedNs } : {}),
    precondition,
    announcedBytes,
    ...(sizeBytes < resumableFromBytes ? {} : { part: resumes ? { key, resume: held } : { key } }),
  });
  if (stage.sizeBytes !== Number(resumedBytes)) throw partChanged(place);
  const base = standing?.base;
  const receipt = await receive(transfer, { parts, stage, precondition, announcedBytes, base });
  return { receipt, source };
}

async function findHeld(transfer: Transfer, job: FetchJob): Promise<FoundPart | undefined> {
  const { place, partKey: key, sizeBytes } = job;
  if (sizeBytes !== undefined && sizeBytes < resumableFromBytes) return undefined;
  return await place.root.findPart(place.path, { key, signal: transfer.signal });
}

interface Receiving {
  readonly parts: Parts;
  readonly stage: StagedFile;
  readonly precondition: Precondition;
  readonly announcedBytes: number;
  readonly base: DeltaBase | undefined;
}

async function receive(
  { signal, onBytes, onReused, isInterrupted }: Transfer,
  { parts, stage, precondition, announcedBytes, base }: Receiving,
): Promise<WriteReceipt> {
  try {
    const trailer = await parts.fill(stage, { announcedBytes, onBytes, onReused, base });
    base?.requireUnchanged();
    const expected = { sizeBytes: Number(trailer.sizeBytes), digest: parseDigest(trailer.digest) };
    return await stage.commit({ precondition, expected, signal });
  } catch (error) {
    // What was ended on purpose, or was changed meanwhile, nobody goes on with.
    if (isInterrupted() || isFault(error, "INTEGRITY_FAILURE")) stage.keep(false);
    throw error;
  }
}

function partChanged({ shown }: FetchJob["place"]): Fault {
  return new Fault("INTEGRITY_FAILURE", `what was kept of ${shown} was changed meanwhile`, {
    hint: "repeat the command",
  });
}
