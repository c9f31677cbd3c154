import { Fault, isFault } from "../fault/fault.ts";
import {
  EntryKind,
  type Entry,
  type FileTrailer,
  type TreeEntry,
  type TreeTrailer,
} from "../gen/fairlead/v1/files_pb.ts";
import { appendPath, parseWorkspacePath, type WorkspacePath } from "../names/workspace-path.ts";
import type { BatchWriter, StageOptions } from "../root/root-handle.ts";
import { fromWireFault } from "../rpc/fault-wire.ts";
import { isStandingEqual, openIncoming } from "./incoming-file.ts";
import { contentOf } from "./pack-parts.ts";
import type { Pending, SmallFile, Streamed } from "./pending-entry.ts";
import { copyLarge, readCopied, requireAnnounced, requireStanding } from "./standing.ts";
import type { StoredTree, StoreTreeOptions } from "./store-tree-options.ts";
import { startFolderTimes, type FolderTimes } from "./tree-folder-times.ts";
import { createTreeNames, type TreeNames } from "./tree-names.ts";
import { maxInlineBytes, maxNamedProblems, type TreePart, type TreeProblem } from "./tree-part.ts";
import {
  differs,
  isLineLost,
  kindWord,
  malformed,
  ownersMode,
  requireDepth,
  requireEntries,
  requirePathBytes,
  requirePossible,
} from "./tree-rules.ts";
import { assertTrailer, createTreeTally } from "./tree-tally.ts";

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
  try {
    for await (const part of parts) {
      options.signal?.throwIfAborted();
      await storer.take(part);
    }
  } catch (error) {
    // Whoever comes back after the line was lost finds what is whole already.
    if (isLineLost(error) && options.strict !== true) await storer.keep();
    throw error;
  }
  return storer.finish();
}

/** Entries kept in order until the small files among them are published. */
const maxPending = 32_768;

class Storer implements AsyncDisposable {
  readonly #options: StoreTreeOptions;
  readonly #came = createTreeTally();
  readonly #stored = createTreeTally();
  readonly #problems: TreeProblem[] = [];
  readonly #precondition: { readonly kind: "any" | "absent" };
  readonly #keepsEqual: boolean;
  readonly #batch: BatchWriter;
  readonly #times: FolderTimes;
  readonly #names: TreeNames;
  /** Small files of the batch, in its order. */
  #staged: Pending[] = [];
  #pending: Pending[] = [];
  #failedCount = 0;
  #unchangedCount = 0;
  #entryCount = 0;
  #isRootMade = false;
  #streamed: Streamed | undefined;
  #isClosed = false;

  constructor(options: StoreTreeOptions) {
    this.#options = options;
    this.#names = createTreeNames({ folding: options.root.folding });
    this.#precondition = { kind: options.precondition === "any" ? "any" : "absent" };
    this.#keepsEqual = options.precondition === "absent_or_equal";
    this.#times = startFolderTimes(options.root, options.path);
    this.#batch = options.root.batchWrite({ isUnseen: options.isUnseen ?? false });
  }

  async take(arrived: TreePart): Promise<void> {
    const part = { ...arrived, content: await contentOf(arrived) };
    if (this.#isClosed) throw malformed("something follows the closing message");
    await this.#makeRoot();
    for (const { path, fault } of part.problems ?? []) {
      this.#count();
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
    if (part.treeTrailer) await this.#takeTreeTrailer(part.treeTrailer);
  }

  /** Gives the files that are whole their names. */
  async keep(): Promise<void> {
    const { check } = this.#options;
    await this.#batch.publish(check ? { check } : {});
  }

  finish(): StoredTree {
    if (!this.#isClosed) throw new Fault("INTEGRITY_FAILURE", "the tree was cut off before its end");
    return {
      stored: this.#stored.trailer(BigInt(this.#failedCount)),
      problems: this.#problems,
      failedCount: this.#failedCount,
      unchangedCount: this.#unchangedCount,
    };
  }

  async #makeRoot(): Promise<void> {
    if (this.#isRootMade) return;
    this.#isRootMade = true;
    const { root, path, check, top } = this.#options;
    if (path === "") return;
    await root.makeFolder(path, {
      parents: true,
      allowExisting: true,
      ...(top ? { mode: ownersMode(top.mode) } : {}),
      ...(check ? { check } : {}),
    });
    if (top) this.#times.add("", top.mtimeNs);
  }

  async #takeEntries(part: TreePart): Promise<void> {
    let at = 0;
    for (const item of part.entries) {
      const { entry } = item;
      if (!entry || this.#streamed) throw malformed("an entry begins where none may");
      const end = at + Number(item.inlineBytes);
      if (end > part.content.byteLength) throw malformed("a message holds less content than its entries say");
      this.#count();
      const pending: Pending = { entry, state: "open" };
      this.#pending.push(pending);
      if (item.streamed) {
        requirePossible(entry);
        this.#streamed = { entry, pending, file: undefined, receivedBytes: 0n };
        await this.#openFile(this.#streamed, item);
      } else {
        this.#came.add(entry);
        await this.#store(pending, item, part.content.subarray(at, end));
      }
      at = end;
    }
    if (at !== part.content.byteLength) {
      throw malformed("a message holds more content than its entries say");
    }
    this.#options.onBytes?.(part.content.byteLength);
    if (this.#batch.isFull || this.#pending.length > maxPending) await this.#publish();
  }

  #count(): void {
    this.#entryCount += 1;
    requireEntries(this.#entryCount, this.#options);
  }

  async #store(pending: Pending, item: TreeEntry, content: Uint8Array): Promise<void> {
    const { entry } = pending;
    try {
      const path = this.#pathOf(item, entry);
      if (entry.kind === EntryKind.FILE) {
        // A file that is staged is stored only once it has its name.
        if ((await this.#storeFile(path, { pending, item, content })) === "staged") return;
      } else if (entry.kind === EntryKind.FOLDER) await this.#makeFolder(path, entry);
      else await this.#makeLink(path, entry);
      pending.state = "stored";
    } catch (error) {
      this.#failEntry(pending, error);
    }
  }

  async #storeFile(path: WorkspacePath, { pending, item, content }: SmallFile): Promise<"staged" | "stored"> {
    const { root, signal } = this.#options;
    const { entry } = pending;
    await requireStanding(root, path, item);
    let bytes = content;
    if (item.copyFrom !== "") {
      const from = appendPath(this.#options.path, parseWorkspacePath(item.copyFrom, { field: "copyFrom" }));
      if (entry.sizeBytes > maxInlineBytes) {
        const how = {
          ...this.#writing(entry),
          precondition: this.#precondition,
          ...(signal ? { signal } : {}),
        };
        await copyLarge(root, { from, to: path, entry }, how);
        return "stored";
      }
      bytes = readCopied(root, from);
    }
    if (this.#stageSmall(path, pending, bytes)) return "staged";
    this.#unchangedCount += 1;
    return "stored";
  }

  #pathOf(item: TreeEntry, entry: Entry): WorkspacePath {
    const relative = this.#names.take(entry, item);
    requireDepth(relative, this.#options);
    const path = appendPath(this.#options.path, relative);
    requirePathBytes(path);
    const refused = this.#options.mayWrite?.(path, kindWord(entry.kind));
    if (refused) throw refused;
    return path;
  }

  async #makeFolder(path: WorkspacePath, entry: Entry): Promise<void> {
    const { root, check } = this.#options;
    const mode = ownersMode(entry.mode);
    await root.makeFolder(path, { allowExisting: true, mode, ...(check ? { check } : {}) });
    this.#times.add(entry.path, entry.modifiedNs);
  }

  async #makeLink(path: WorkspacePath, entry: Entry): Promise<void> {
    const { root, check } = this.#options;
    await root.makeLink(path, entry.linkTarget, {
      within: this.#options.path,
      replace: this.#precondition.kind === "any",
      ...(check ? { check } : {}),
    });
  }

  /** Whether it was staged; else the file stands there as it is to be. */
  #stageSmall(path: WorkspacePath, pending: Pending, content: Uint8Array): boolean {
    const { entry } = pending;
    requireAnnounced(entry, content);
    try {
      this.#batch.add(path, content, { ...this.#writing(entry), precondition: this.#precondition });
    } catch (error) {
      if (!this.#keepsEqual || !isFault(error, "ALREADY_EXISTS")) throw error;
      if (isStandingEqual(this.#options.root, path, content)) return false;
      throw differs(path);
    }
    this.#staged.push(pending);
    return true;
  }

  /** How every file of the tree is written. */
  #writing(entry: Entry): Omit<StageOptions, "precondition"> & { readonly mode: number } {
    const { check, maxFileBytes } = this.#options;
    return {
      mode: entry.mode & 0o777,
      ...(entry.modifiedNs === 0n ? {} : { mtimeNs: entry.modifiedNs }),
      ...(check ? { check } : {}),
      ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
    };
  }

  /** Gives the staged files their names, and tallies what is settled by now, in the order of the tree. */
  async #publish(): Promise<void> {
    const { check, signal } = this.#options;
    const staged = this.#staged;
    this.#staged = [];
    const outcomes = await this.#batch.publish({
      ...(check ? { check } : {}),
      ...(signal ? { signal } : {}),
    });
    for (const [index, { fault }] of outcomes.entries()) {
      const pending = staged[index];
      if (!pending) throw new Error("the batch answered for more files than it took");
      if (fault) this.#failEntry(pending, fault);
      else pending.state = "stored";
    }
    const open = this.#pending.findIndex(({ state }) => state === "open");
    const settled = open < 0 ? this.#pending : this.#pending.slice(0, open);
    this.#pending = open < 0 ? [] : this.#pending.slice(open);
    for (const { entry, state } of settled) if (state === "stored") this.#stored.add(entry);
    const last = settled.at(-1);
    if (last) await this.#times.settle(last.entry.path, check);
  }

  async #openFile(streamed: Streamed, item: TreeEntry): Promise<void> {
    const { entry } = streamed;
    try {
      const path = this.#pathOf(item, entry);
      await requireStanding(this.#options.root, path, item);
      streamed.file = await openIncoming(this.#options.root, path, {
        ...this.#writing(entry),
        sizeBytes: entry.sizeBytes,
        precondition: this.#precondition,
        keepsEqual: this.#keepsEqual,
      });
    } catch (error) {
      this.#failEntry(streamed.pending, error);
    }
  }

  async #takeChunk(chunk: Uint8Array): Promise<void> {
    const streamed = this.#streamed;
    if (!streamed) throw malformed("content comes that belongs to no file");
    streamed.receivedBytes += BigInt(chunk.byteLength);
    if (streamed.receivedBytes > streamed.entry.sizeBytes) {
      throw malformed("a file is longer than it was announced");
    }
    this.#options.onBytes?.(chunk.byteLength);
    try {
      await streamed.file?.take(chunk);
    } catch (error) {
      await this.#dropFile(streamed);
      this.#failEntry(streamed.pending, error);
    }
  }

  async #takeFileTrailer(trailer: FileTrailer): Promise<void> {
    const streamed = this.#streamed;
    if (!streamed) throw malformed("a file ends that did not begin");
    this.#streamed = undefined;
    const { entry, pending, file } = streamed;
    // The sender gave it up, and says why among the problems.
    if (trailer.digest === "") {
      pending.state = "given-up";
      await this.#dropFile(streamed);
      return;
    }
    pending.entry = { ...entry, sizeBytes: trailer.sizeBytes, digest: trailer.digest };
    this.#came.add(pending.entry);
    if (!file) return;
    try {
      const { check, signal } = this.#options;
      const ended = await file.finish(trailer, {
        ...(check ? { check } : {}),
        ...(signal ? { signal } : {}),
      });
      if (ended === "unchanged") this.#unchangedCount += 1;
      pending.state = "stored";
    } catch (error) {
      this.#failEntry(pending, error);
    } finally {
      await this.#dropFile(streamed);
    }
  }

  async #takeTreeTrailer(trailer: TreeTrailer): Promise<void> {
    if (this.#streamed) throw malformed("the tree ends in the middle of a file");
    assertTrailer(this.#came, trailer);
    await this.#publish();
    await this.#times.settle(undefined, this.#options.check);
    if (this.#entryCount > 1) await this.#batch.sync();
    this.#isClosed = true;
  }

  async #dropFile(streamed: Streamed): Promise<void> {
    const { file } = streamed;
    streamed.file = undefined;
    await file?.[Symbol.asyncDispose]();
  }

  #failEntry(pending: Pending, error: unknown): void {
    // A full disk or a tree beyond its limits fails the next entry as well: there is no use in going on.
    const ends = isFault(error, "DISK_FULL") || isFault(error, "LIMIT_REACHED");
    if (ends || !isFault(error) || this.#options.signal?.aborted === true) throw error;
    pending.state = "failed";
    this.#fail(pending.entry.path, error);
  }

  #fail(path: string, fault: Fault): void {
    if (this.#options.strict === true) throw fault.with({ details: { path } });
    this.#failedCount += 1;
    if (this.#problems.length < maxNamedProblems) this.#problems.push({ path, fault });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await using batch = this.#batch;
    void batch;
    if (this.#streamed) await this.#dropFile(this.#streamed);
  }
}
