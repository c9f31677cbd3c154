import { createDigester, type Digester } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import {
  EntryKind,
  type Entry,
  type FileTrailer,
  type Source,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { leadsOut } from "../../../shared/names/link-target.ts";
import { pathEscapes } from "../../../shared/root/refusals.ts";
import type { Precondition } from "../../../shared/root/root-handle.ts";
import { freeReceived } from "../../../shared/rpc/chunk-memory.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { createTreeNames, type TreeNames } from "../../../shared/tree/tree-names.ts";
import { maxNamedProblems, type TreePart, type TreeProblem } from "../../../shared/tree/tree-part.ts";
import { kindWord, malformed, requireEntries, requirePossible } from "../../../shared/tree/tree-rules.ts";
import { assertTrailer, createTreeTally, type TreeTally } from "../../../shared/tree/tree-tally.ts";
import { type ArchiveSink, openGzipSink, openPlainSink } from "./archive-sink.ts";
import type { LocalPlace } from "./local-place.ts";
import type { Remote } from "./remote.ts";
import { padding, tarEnd, tarHeader } from "./tar-writer.ts";
import type { Transfer, TransferCounts } from "./transfer.ts";

/** A tree that becomes one archive. */
export interface ArchiveJob {
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly place: LocalPlace;
  readonly precondition: Precondition;
  /** The first bad entry ends it. */
  readonly strict: boolean;
  /** Packs it with gzip. */
  readonly isPacked: boolean;
}

/**
 * Fetches a tree into one tar archive, in constant memory. It has its name only once it is whole; what could not be read is
 * left out and named.
 */
export async function getArchive({
  transfer,
  remote,
  place,
  precondition,
  strict,
  isPacked,
}: ArchiveJob): Promise<TransferCounts> {
  const { workspace, path } = remote;
  await using stage = await place.root.stageWrite(place.path, { precondition });
  await using sink = isPacked ? openGzipSink(stage) : openPlainSink(stage);
  const archive = new Archive(sink, transfer.onBytes);
  let source: Source | undefined;
  for await (const part of transfer.files.readTree({ workspace, path, strict }, transfer.call)) {
    source ??= part.source;
    await archive.take(part);
    freeReceived(part.content);
  }
  const counts = archive.finish();
  await sink.write(tarEnd());
  await sink.finish();
  await stage.commit({ precondition, signal: transfer.signal });
  return { ...counts, source };
}

interface OpenEntry {
  readonly entry: Entry;
  readonly digester: Digester;
}

class Archive {
  readonly #sink: ArchiveSink;
  readonly #onBytes: (bytes: number) => void;
  readonly #tally: TreeTally = createTreeTally();
  readonly #problems: TreeProblem[] = [];
  readonly #names: TreeNames = createTreeNames();
  #entryCount = 0;
  #failedCount = 0;
  #open: OpenEntry | undefined;
  #counts: Omit<TransferCounts, "failed" | "failedCount"> | undefined;

  constructor(sink: ArchiveSink, onBytes: (bytes: number) => void) {
    this.#sink = sink;
    this.#onBytes = onBytes;
  }

  async take(part: TreePart): Promise<void> {
    if (this.#counts) throw malformed("something follows the closing message");
    for (const { path, fault } of part.problems ?? []) {
      this.#failedCount += 1;
      const why = fault
        ? fromWireFault(fault)
        : new Fault("INTERNAL", "the entry failed for no reason given");
      if (this.#problems.length < maxNamedProblems) this.#problems.push({ path, fault: why });
    }
    if (part.entries.length > 0) await this.#takeEntries(part);
    else if (part.content.byteLength > 0) await this.#takeChunk(part.content);
    if (part.fileTrailer) await this.#closeFile(part.fileTrailer);
    const { treeTrailer } = part;
    if (!treeTrailer) return;
    if (this.#open) throw malformed("the tree ends in the middle of a file");
    assertTrailer(this.#tally, treeTrailer);
    const { files, folders, links, sizeBytes } = treeTrailer;
    this.#counts = {
      files: Number(files),
      folders: Number(folders),
      links: Number(links),
      bytes: Number(sizeBytes),
    };
  }

  finish(): TransferCounts {
    if (!this.#counts) throw new Fault("INTEGRITY_FAILURE", "the tree was cut off before its end");
    return { ...this.#counts, failed: this.#problems, failedCount: this.#failedCount };
  }

  async #takeEntries({ entries, content }: TreePart): Promise<void> {
    const pieces: Uint8Array[] = [];
    let at = 0;
    for (const { entry, inlineBytes, streamed } of entries) {
      if (!entry || this.#open) throw malformed("an entry begins where none may");
      this.#judge(entry);
      const bytes = content.subarray(at, at + Number(inlineBytes));
      at += Number(inlineBytes);
      pieces.push(tarHeader(toTar(entry)));
      if (streamed) {
        this.#open = { entry, digester: createDigester() };
        continue;
      }
      requireWhole(entry, bytes);
      this.#tally.add(entry);
      pieces.push(bytes, padding(bytes.byteLength));
    }
    if (at !== content.byteLength) throw malformed("a message holds other content than its entries say");
    await this.#sink.write(Buffer.concat(pieces));
    this.#onBytes(content.byteLength);
  }

  /** Whoever unpacks the archive may not look: what leads out of it never comes into it. */
  #judge(entry: Entry): void {
    requireEntries((this.#entryCount += 1), {});
    requirePossible(entry);
    const path = this.#names.take(entry);
    if (entry.kind === EntryKind.LINK && leadsOut(path, entry.linkTarget)) throw pathEscapes(path);
  }

  async #takeChunk(chunk: Uint8Array): Promise<void> {
    if (!this.#open) throw malformed("content comes that belongs to no file");
    const { digester, entry } = this.#open;
    digester.update(chunk);
    if (BigInt(digester.sizeBytes) > entry.sizeBytes) throw changed(entry.path);
    await this.#sink.write(chunk);
    this.#onBytes(chunk.byteLength);
  }

  async #closeFile(trailer: FileTrailer): Promise<void> {
    if (!this.#open) throw malformed("a file ends that did not begin");
    const { entry, digester } = this.#open;
    this.#open = undefined;
    // Its header says another size, and an archive cannot take an entry back.
    if (trailer.digest === "" || BigInt(digester.sizeBytes) !== entry.sizeBytes) throw changed(entry.path);
    if (digester.digest() !== trailer.digest) throw malformed("a file is not what its end says");
    this.#tally.add({ ...entry, sizeBytes: trailer.sizeBytes, digest: trailer.digest });
    await this.#sink.write(padding(digester.sizeBytes));
  }
}

function requireWhole(entry: Entry, bytes: Uint8Array): void {
  if (entry.kind === EntryKind.FILE && entry.sizeBytes !== BigInt(bytes.byteLength)) {
    throw malformed(`${entry.path} comes with another size than its own`);
  }
}

function changed(path: string): Fault {
  return new Fault(
    "INTEGRITY_FAILURE",
    `${path} was changed while it was read, and an archive holds whole files only`,
    {
      details: { path },
      hint: "repeat the command",
    },
  );
}

function toTar({
  path,
  kind,
  mode,
  modifiedNs,
  sizeBytes,
  linkTarget,
}: Entry): Parameters<typeof tarHeader>[0] {
  return { path, kind: kindWord(kind), mode, modifiedNs, sizeBytes: Number(sizeBytes), linkTarget };
}
