import { create } from "@bufbuild/protobuf";
import { createDigester, digestOf } from "../content/digest.ts";
import { type Fault, isFault } from "../fault/fault.ts";
import {
  EntryKind as WireKind,
  EntryProblemSchema,
  EntrySchema,
  FileTrailerSchema,
  TreeEntrySchema,
  type Entry as WireEntry,
  type EntryProblem,
  type TreeEntry,
} from "../gen/fairlead/v1/files_pb.ts";
import { relativePath, type WorkspacePath } from "../names/workspace-path.ts";
import { changedWhileRead, fileTooLarge, notAFile } from "../root/refusals.ts";
import type { Entry, HideRule, OpenFile, OperationOptions, RootHandle } from "../root/root-handle.ts";
import type { WalkItem } from "../root/walk-options.ts";
import { createChunkPool } from "../rpc/chunk-memory.ts";
import { toWireFault } from "../rpc/fault-wire.ts";
import { toWireTwinship } from "./tree-names.ts";
import { chunkBytes, maxInlineBytes, maxPackEntries, packBytes, type TreePart } from "./tree-part.ts";
import { createTreeTally, type TreeTally } from "./tree-tally.ts";

/** What is packed and how. */
export interface PackTreeOptions extends OperationOptions {
  readonly root: RootHandle;
  /** The folder whose content is the tree. */
  readonly path: WorkspacePath;
  /** Only these files, in this order; the paths are the workspace's. All that is below the folder by default. */
  readonly only?: readonly WorkspacePath[];
  /** Left out as if it were not there; the path is the workspace's. */
  readonly hide?: HideRule;
  /** Left out as well, but what is packed is told from it where some volumes do not. */
  readonly leave?: HideRule;
  /** Judges a file before it is opened; its fault makes the file a problem. */
  readonly mayRead?: (path: WorkspacePath) => Fault | undefined;
  /** The first problem ends the tree. */
  readonly strict?: boolean;
  /** A larger file is a problem, `TOO_LARGE`. */
  readonly maxFileBytes?: number;
  readonly maxEntries?: number;
  readonly maxDepth?: number;
  readonly signal?: AbortSignal;
}

/**
 * A folder as the messages of a tree, in constant memory: small files packed together, large ones in chunks, a closing
 * message at the end. What cannot be read is a problem beside the rest. Fails as `walk` does, and with the first problem
 * where `strict` was asked for.
 */
export async function* packTree(options: PackTreeOptions): AsyncGenerator<TreePart, void> {
  const packer = new Packer(options);
  for await (const batch of options.only ? walkOnly(options, options.only) : walkAll(options)) {
    for (const item of batch) {
      if (packer.isFull(item)) yield packer.flush();
      const large = packer.take(item);
      if (!large) continue;
      if (!packer.isEmpty) yield packer.flush();
      yield* packer.stream(large);
    }
  }
  if (!packer.isEmpty) yield packer.flush();
  yield packer.close();
}

function walkAll(options: PackTreeOptions): AsyncIterable<readonly WalkItem[]> {
  const { root, path, signal, maxEntries, maxDepth, hide, leave, check } = options;
  return root.walk(path, {
    contentUpToBytes: maxInlineBytes,
    tellsGone: true,
    tellsTwins: true,
    ...(hide ? { hide } : {}),
    ...(leave ? { leave } : {}),
    ...(check ? { check } : {}),
    ...(maxEntries === undefined ? {} : { maxEntries }),
    ...(maxDepth === undefined ? {} : { maxDepth }),
    ...(signal ? { signal } : {}),
  });
}

async function* walkOnly(
  options: PackTreeOptions,
  paths: readonly WorkspacePath[],
): AsyncGenerator<readonly WalkItem[], void> {
  for (const path of paths) {
    options.signal?.throwIfAborted();
    yield [await findOne(options, path)];
  }
}

async function findOne({ root, check }: PackTreeOptions, path: WorkspacePath): Promise<WalkItem> {
  const checked = check ? { check } : {};
  try {
    const entry = await root.stat(path, checked);
    if (entry.kind !== "file") throw notAFile(path);
    if (entry.sizeBytes > maxInlineBytes) return { kind: "entry", entry };
    return { kind: "entry", ...root.readSmall(path, { ...checked, maxBytes: maxInlineBytes }) };
  } catch (error) {
    if (!isFault(error)) throw error;
    return { kind: "problem", problem: { path, fault: error } };
  }
}

type MetEntry = Extract<WalkItem, { readonly kind: "entry" }>;

class Packer {
  readonly #options: PackTreeOptions;
  readonly #tally: TreeTally = createTreeTally();
  #entries: TreeEntry[] = [];
  #problems: EntryProblem[] = [];
  readonly #packs = createChunkPool(packBytes);
  readonly #chunks = createChunkPool(chunkBytes);
  #pack: Buffer | undefined;
  #filled = 0;
  #failed = 0n;

  constructor(options: PackTreeOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0 && this.#problems.length === 0;
  }

  /** Whether `item` has no room in the message that is being filled. */
  isFull(item: WalkItem): boolean {
    if (this.#entries.length + this.#problems.length >= maxPackEntries) return true;
    const size = item.kind === "entry" ? (item.content?.byteLength ?? 0) : 0;
    return this.#filled > 0 && this.#filled + size > packBytes;
  }

  /** Puts an item in; a file that has to be read on its own comes back. */
  take(item: WalkItem): MetEntry | undefined {
    if (item.kind === "problem") {
      this.#fail(item.problem.path, item.problem.fault);
      return undefined;
    }
    const { entry, content } = item;
    if (entry.kind !== "file") {
      this.#add(this.#toWire(entry, ""), item);
      return undefined;
    }
    const refused = this.#options.mayRead?.(entry.path) ?? this.#tooLarge(entry);
    if (refused) this.#fail(entry.path, refused);
    else if (!content) return item;
    else this.#add(this.#toWire(entry, digestOf(content)), item);
    return undefined;
  }

  #tooLarge(entry: Entry): Fault | undefined {
    const limit = this.#options.maxFileBytes;
    if (limit === undefined || entry.sizeBytes <= limit) return undefined;
    return fileTooLarge(entry.path, limit, entry.sizeBytes);
  }

  #add(entry: WireEntry, { content, twinship }: MetEntry): void {
    this.#tally.add(entry);
    const inlineBytes = BigInt(content?.byteLength ?? 0);
    this.#entries.push(create(TreeEntrySchema, { entry, inlineBytes, ...toWireTwinship(twinship) }));
    if (!content || content.byteLength === 0) return;
    // A message has its memory to itself until it was sent: it may still be on its way when the next one is filled.
    this.#pack ??= this.#packs.take();
    this.#pack.set(content, this.#filled);
    this.#filled += content.byteLength;
  }

  flush(): TreePart {
    const content = this.#pack ? this.#packs.lend(this.#pack, this.#filled) : empty;
    const part = { entries: this.#entries, problems: this.#problems, content };
    this.#entries = [];
    this.#problems = [];
    this.#pack = undefined;
    this.#filled = 0;
    return part;
  }

  /** A large file: its entry, its chunks, its trailer. One that changes meanwhile is given up and named. */
  async *stream({ entry: found, twinship }: MetEntry): AsyncGenerator<TreePart, void> {
    const { root, signal, maxFileBytes } = this.#options;
    let file: OpenFile;
    try {
      file = await root.openFile(found.path, maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes });
    } catch (error) {
      if (!isFault(error)) throw error;
      return this.#fail(found.path, error);
    }
    await using opened = file;
    const entry = this.#toWire(opened.entry, "");
    const streamed = create(TreeEntrySchema, { entry, streamed: true, ...toWireTwinship(twinship) });
    yield { entries: [streamed], content: empty };
    const digester = createDigester();
    try {
      // What is behind its announced end came meanwhile: that is seen as a change, and never sent.
      const { sizeBytes } = opened.entry;
      for (let position = 0; position < sizeBytes;) {
        signal?.throwIfAborted();
        const buffer = this.#chunks.take();
        const room = buffer.subarray(0, Math.min(chunkBytes, sizeBytes - position));
        const count = await opened.read(room, position);
        if (count === 0) break;
        position += count;
        const chunk = this.#chunks.lend(buffer, count);
        digester.update(chunk);
        yield { entries: [], content: chunk };
        if (count < chunkBytes) break;
      }
      if (opened.hasChanged()) {
        // One that grew beyond the limit is too large before it is anything else.
        if (maxFileBytes !== undefined) await opened.read(Buffer.alloc(1), maxFileBytes);
        throw changedWhileRead(found.path);
      }
    } catch (error) {
      if (!isFault(error) || signal?.aborted === true) throw error;
      this.#fail(found.path, error);
      yield { ...this.flush(), fileTrailer: create(FileTrailerSchema) };
      return;
    }
    const fileTrailer = create(FileTrailerSchema, {
      sizeBytes: BigInt(digester.sizeBytes),
      digest: digester.digest(),
    });
    this.#tally.add({ ...entry, ...fileTrailer });
    yield { entries: [], content: empty, fileTrailer };
  }

  close(): TreePart {
    return { entries: [], content: empty, treeTrailer: this.#tally.trailer(this.#failed) };
  }

  #fail(path: string, fault: Fault): void {
    if (this.#options.strict === true) throw fault;
    this.#failed += 1n;
    const shown = this.#relative(path);
    this.#problems.push(create(EntryProblemSchema, { path: shown, fault: toWireFault(fault) }));
  }

  /** A problem's path may be no path that can be asked for, but it begins with the tree's as every other. */
  #relative(path: string): string {
    const { path: top } = this.#options;
    return top !== "" && path.startsWith(`${top}/`) ? path.slice(top.length + 1) : path;
  }

  #toWire(entry: Entry, digest: string): WireEntry {
    return create(EntrySchema, {
      path: relativePath(entry.path, this.#options.path),
      kind: wireKinds[entry.kind],
      sizeBytes: BigInt(entry.sizeBytes),
      mode: entry.mode,
      modifiedNs: entry.mtimeNs,
      linkTarget: entry.linkTarget ?? "",
      digest,
    });
  }
}

const empty = new Uint8Array();

const wireKinds = {
  file: WireKind.FILE,
  folder: WireKind.FOLDER,
  link: WireKind.LINK,
  other: WireKind.OTHER,
} as const;
