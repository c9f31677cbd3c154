import { isDigest, type Digest } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import {
  EntryKind,
  type Entry,
  type FileTrailer,
  type TreeEntry,
  type TreeTrailer,
} from "../gen/fairlead/v1/files_pb.ts";
import { appendPath, parseWorkspacePath, pathNames, type WorkspacePath } from "../names/workspace-path.ts";
import type { CanonicalCheck, Precondition, RootHandle, StagedFile } from "../root/root-handle.ts";
import { fromWireFault } from "../rpc/fault-wire.ts";
import { maxNamedProblems, type TreePart, type TreeProblem } from "./tree-part.ts";
import { assertTrailer, createTreeTally } from "./tree-tally.ts";

/** Where a tree goes and what is allowed there. */
export interface StoreTreeOptions {
  readonly root: RootHandle;
  /** The folder that the tree's root becomes; made when absent. */
  readonly path: WorkspacePath;
  /** For every file of the tree. */
  readonly precondition: "any" | "absent";
  /** Judges an entry before anything is made for it; its fault makes the entry a problem. */
  readonly mayWrite?: (path: WorkspacePath, kind: "file" | "folder" | "link") => Fault | undefined;
  /** Judges canonical paths, as every write's. */
  readonly check?: CanonicalCheck;
  /** The first problem ends the tree. */
  readonly strict?: boolean;
  readonly maxFileBytes?: number;
  /** More entries are `LIMIT_REACHED`; 1,000,000 by default. */
  readonly maxEntries?: number;
  /** A deeper tree is `LIMIT_REACHED`; 64 by default. */
  readonly maxDepth?: number;
  readonly signal?: AbortSignal;
  /** Hears of bytes of content as they arrive. */
  readonly onBytes?: (bytes: number) => void;
}

/** What was stored. */
export interface StoredTree {
  /** Counts and digest of what is on the disk now. */
  readonly stored: TreeTrailer;
  /** Entries that failed, on either side: the first 10,000. */
  readonly problems: readonly TreeProblem[];
  /** All entries that failed. */
  readonly failedCount: number;
}

/**
 * Stores a tree as its messages arrive, in constant memory. An entry that cannot be stored is a problem beside the rest;
 * a message that breaks the rules, a tree that ends without its closing message, and one whose closing message says
 * otherwise are `INTEGRITY_FAILURE`. Every file that stands under its name is whole.
 */
export async function storeTree(
  parts: AsyncIterable<TreePart>,
  options: StoreTreeOptions,
): Promise<StoredTree> {
  await using storer = new Storer(options);
  for await (const part of parts) {
    options.signal?.throwIfAborted();
    await storer.take(part);
  }
  return storer.finish();
}

/** Small files written at once. */
const maxAtOnce = 32;

interface Streamed {
  readonly entry: Entry;
  /** Undefined once the file has failed: what still comes of it is dropped. */
  stage: StagedFile | undefined;
  receivedBytes: bigint;
}

/** How storing an entry of a pack went. */
interface Outcome {
  readonly entry: Entry;
  readonly fault: Fault | undefined;
}

class Storer implements AsyncDisposable {
  readonly #options: StoreTreeOptions;
  readonly #came = createTreeTally();
  readonly #stored = createTreeTally();
  readonly #problems: TreeProblem[] = [];
  readonly #precondition: Precondition;
  /** Small files being written: each holds two descriptors. */
  readonly #running = new Set<Promise<void>>();
  #failedCount = 0;
  #entryCount = 0;
  #isRootMade = false;
  #streamed: Streamed | undefined;
  #isClosed = false;

  constructor(options: StoreTreeOptions) {
    this.#options = options;
    this.#precondition = { kind: options.precondition };
  }

  async take(part: TreePart): Promise<void> {
    if (this.#isClosed) throw malformed("something follows the closing message");
    await this.#makeRoot();
    for (const { path, fault } of part.problems ?? []) {
      this.#fail(
        path,
        fault ? fromWireFault(fault) : new Fault("INTERNAL", "the entry failed for no reason given"),
      );
    }
    if (part.entries.length > 0) {
      await this.#takeEntries(part);
      return;
    }
    if (part.content.byteLength > 0) await this.#takeChunk(part.content);
    if (part.fileTrailer) await this.#takeFileTrailer(part.fileTrailer);
    if (part.treeTrailer) this.#takeTreeTrailer(part.treeTrailer);
  }

  finish(): StoredTree {
    if (!this.#isClosed) throw new Fault("INTEGRITY_FAILURE", "the tree was cut off before its end");
    return {
      stored: this.#stored.trailer(BigInt(this.#failedCount)),
      problems: this.#problems,
      failedCount: this.#failedCount,
    };
  }

  async #makeRoot(): Promise<void> {
    if (this.#isRootMade) return;
    this.#isRootMade = true;
    const { root, path, check } = this.#options;
    if (path === "") return;
    await root.makeFolder(path, { parents: true, allowExisting: true, ...(check ? { check } : {}) });
  }

  async #takeEntries(part: TreePart): Promise<void> {
    const outcomes: Promise<Outcome>[] = [];
    try {
      await this.#begin(part, outcomes);
      for (const { entry, fault } of await Promise.all(outcomes)) {
        if (fault) this.#fail(entry.path, fault);
        else this.#stored.add(entry);
      }
    } finally {
      // Whatever ended this message: nothing of it is left running.
      await Promise.allSettled(outcomes);
    }
    this.#options.onBytes?.(part.content.byteLength);
  }

  async #begin(part: TreePart, outcomes: Promise<Outcome>[]): Promise<void> {
    let at = 0;
    for (const item of part.entries) {
      const { entry } = item;
      if (!entry || this.#streamed) throw malformed("an entry begins where none may");
      const end = at + Number(item.inlineBytes);
      if (end > part.content.byteLength) throw malformed("a message holds less content than its entries say");
      this.#count();
      if (item.streamed) {
        this.#streamed = { entry, stage: undefined, receivedBytes: 0n };
        await this.#openStage(this.#streamed);
      } else {
        this.#came.add(entry);
        if (this.#running.size >= maxAtOnce) await Promise.race(this.#running);
        const storing = this.#store(item, entry, part.content.subarray(at, end));
        outcomes.push(storing);
        // Folders and links at once, in order: what follows may lie in them.
        if (entry.kind === EntryKind.FILE) this.#run(storing);
        else await storing;
      }
      at = end;
    }
    if (at !== part.content.byteLength) throw malformed("a message holds more content than its entries say");
  }

  #run(storing: Promise<unknown>): void {
    const ended: Promise<void> = storing.then(
      () => void this.#running.delete(ended),
      () => void this.#running.delete(ended),
    );
    this.#running.add(ended);
  }

  #count(): void {
    this.#entryCount += 1;
    const limit = this.#options.maxEntries ?? 1_000_000;
    if (this.#entryCount <= limit) return;
    throw new Fault("LIMIT_REACHED", `the tree has more than ${limit} entries`, {
      details: { limit, actual: this.#entryCount },
    });
  }

  async #store(item: TreeEntry, entry: Entry, content: Uint8Array): Promise<Outcome> {
    try {
      const path = this.#pathOf(entry);
      if (entry.kind === EntryKind.FOLDER) await this.#makeFolder(path, entry);
      else if (entry.kind === EntryKind.LINK) await this.#makeLink(path, entry);
      else if (entry.sizeBytes === item.inlineBytes) await this.#writeSmall(path, entry, content);
      else throw malformed(`${entry.path} comes with another size than its own`);
      return { entry, fault: undefined };
    } catch (error) {
      return { entry, fault: this.#requireBearable(error) };
    }
  }

  #pathOf(entry: Entry): WorkspacePath {
    const relative = parseWorkspacePath(entry.path);
    if (relative === "")
      throw new Fault("PATH_INVALID", "an entry of the tree has no name", { details: { field: "path" } });
    const limit = this.#options.maxDepth ?? 64;
    const depth = pathNames(relative).length;
    if (depth > limit + 1) {
      throw new Fault("LIMIT_REACHED", `the tree is more than ${limit} folders deep`, {
        details: { limit, actual: depth },
      });
    }
    const path = appendPath(this.#options.path, relative);
    const refused = this.#options.mayWrite?.(path, kindWord(entry.kind));
    if (refused) throw refused;
    return path;
  }

  async #makeFolder(path: WorkspacePath, entry: Entry): Promise<void> {
    const { root, check } = this.#options;
    // What is made here is filled afterwards, so its owner may always enter and write.
    const mode = (entry.mode & 0o777) | 0o700;
    await root.makeFolder(path, { allowExisting: true, mode, ...(check ? { check } : {}) });
  }

  async #makeLink(path: WorkspacePath, entry: Entry): Promise<void> {
    throw new Fault("UNSUPPORTED_FILE_TYPE", `${entry.path} is a link, which cannot be stored yet`, {
      details: { path: entry.path },
    });
  }

  async #writeSmall(path: WorkspacePath, entry: Entry, content: Uint8Array): Promise<void> {
    await using stage = await this.#stage(path, entry);
    if (content.byteLength > 0) await stage.write(content);
    await this.#commit(stage, { sizeBytes: entry.sizeBytes, digest: entry.digest });
  }

  async #stage(path: WorkspacePath, entry: Entry): Promise<StagedFile> {
    const { root, check, maxFileBytes } = this.#options;
    return root.stageWrite(path, {
      createParents: false,
      mode: entry.mode & 0o777,
      ...(entry.modifiedNs === 0n ? {} : { mtimeNs: entry.modifiedNs }),
      ...(check ? { check } : {}),
      ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
    });
  }

  async #commit(stage: StagedFile, said: Pick<FileTrailer, "sizeBytes" | "digest">): Promise<void> {
    const { check, signal } = this.#options;
    await stage.commit({
      precondition: this.#precondition,
      expected: { sizeBytes: Number(said.sizeBytes), digest: requireDigest(said.digest) },
      ...(check ? { check } : {}),
      ...(signal ? { signal } : {}),
    });
  }

  async #openStage(streamed: Streamed): Promise<void> {
    const { entry } = streamed;
    try {
      streamed.stage = await this.#stage(this.#pathOf(entry), entry);
    } catch (error) {
      this.#failEntry(entry.path, error);
    }
  }

  async #takeChunk(chunk: Uint8Array): Promise<void> {
    const streamed = this.#streamed;
    if (!streamed) throw malformed("content comes that belongs to no file");
    streamed.receivedBytes += BigInt(chunk.byteLength);
    if (streamed.receivedBytes > streamed.entry.sizeBytes)
      throw malformed("a file is longer than it was announced");
    this.#options.onBytes?.(chunk.byteLength);
    try {
      await streamed.stage?.write(chunk);
    } catch (error) {
      await this.#dropStage(streamed);
      this.#failEntry(streamed.entry.path, error);
    }
  }

  async #takeFileTrailer(trailer: FileTrailer): Promise<void> {
    const streamed = this.#streamed;
    if (!streamed) throw malformed("a file ends that did not begin");
    this.#streamed = undefined;
    const { entry } = streamed;
    // The sender gave it up, and says why among the problems.
    if (trailer.digest === "") return await this.#dropStage(streamed);
    const whole: Entry = { ...entry, sizeBytes: trailer.sizeBytes, digest: trailer.digest };
    this.#came.add(whole);
    const { stage } = streamed;
    if (!stage) return;
    streamed.stage = undefined;
    try {
      await using open = stage;
      await this.#commit(open, trailer);
      this.#stored.add(whole);
    } catch (error) {
      this.#failEntry(entry.path, error);
    }
  }

  #takeTreeTrailer(trailer: TreeTrailer): void {
    if (this.#streamed) throw malformed("the tree ends in the middle of a file");
    assertTrailer(this.#came, trailer);
    this.#isClosed = true;
  }

  async #dropStage(streamed: Streamed): Promise<void> {
    const { stage } = streamed;
    streamed.stage = undefined;
    await stage?.discard();
  }

  #failEntry(path: string, error: unknown): void {
    this.#fail(path, this.#requireBearable(error));
  }

  /** A fault of one entry. A full disk or a tree beyond its limits fails the next as well: there is no use in going on. */
  #requireBearable(error: unknown): Fault {
    const ends =
      isFault(error, "DISK_FULL") ||
      isFault(error, "LIMIT_REACHED") ||
      this.#options.signal?.aborted === true;
    if (ends || !isFault(error)) throw error;
    return error;
  }

  #fail(path: string, fault: Fault): void {
    if (this.#options.strict === true) throw fault.with({ details: { path } });
    this.#failedCount += 1;
    if (this.#problems.length < maxNamedProblems) this.#problems.push({ path, fault });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#streamed) await this.#dropStage(this.#streamed);
  }
}

function requireDigest(text: string): Digest {
  if (isDigest(text)) return text;
  throw malformed("a file comes without its digest");
}

function kindWord(kind: EntryKind): "file" | "folder" | "link" {
  if (kind === EntryKind.FOLDER) return "folder";
  return kind === EntryKind.LINK ? "link" : "file";
}

function malformed(why: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `the tree is malformed: ${why}`);
}
