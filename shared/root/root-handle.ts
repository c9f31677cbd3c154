import type { Digest } from "../content/digest.ts";
import type { Fault } from "../fault/fault.ts";
import type { NameFolding } from "../names/folded-name.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { FolderTime } from "./folder-time.ts";
import type { FoundThing, Look, LookOptions } from "./look.ts";
import type { FoundPart, StagePart } from "./part.ts";
import type { RemoveOptions } from "./remove-options.ts";
import type { SmallFile } from "./small-file.ts";
import type { TrustedFolder } from "./trusted-folder.ts";
import type { WalkItem, WalkOptions } from "./walk-options.ts";

/** What an entry is. A device, socket or FIFO is `other`. */
export type EntryKind = "file" | "folder" | "link" | "other";

/** What stands at a path. */
export interface Entry {
  /** The path as asked for, or as found by a listing. */
  readonly path: WorkspacePath;
  /** The path of what was opened, every link resolved. */
  readonly canonicalPath: WorkspacePath;
  readonly kind: EntryKind;
  /** Bytes of a file; 0 for anything else. */
  readonly sizeBytes: number;
  /** Permission bits (`0o7777`). */
  readonly mode: number;
  /** Modification time in nanoseconds since 1970. */
  readonly mtimeNs: bigint;
  /** Change time in nanoseconds since 1970: what an edit that restores the modification time still moves. */
  readonly ctimeNs: bigint;
  readonly inode: bigint;
  readonly device: bigint;
  /** When it was made, in nanoseconds since 1970: an inode's number is soon given to another. */
  readonly bornNs: bigint;
  /** How many names the file has. */
  readonly links: number;
  /** Of a link: where it points to, as text. */
  readonly linkTarget?: string;
  /** Of a link that `stat` or a listing met: the path that it leads to, through every other link. */
  readonly linkLeadsTo?: WorkspacePath;
  /** Of a link that a listing met and whose target is not shown: why. */
  readonly linkFault?: Fault;
}

/** An entry that could not be served. */
export interface Problem {
  /** Relative to the root; bytes that are no UTF-8 are escaped as `\xNN`, so it may be no path that can be asked for. */
  readonly path: string;
  readonly fault: Fault;
}

/** How surely a root keeps what is done beneath it inside. */
export type Containment = "kernel" | "best_effort";

/** What tests put between the steps of an operation; never set in production. */
export interface RootHooks {
  /** After a path was resolved and before it is used, in the same turn. */
  readonly afterResolve?: (event: ResolveEvent) => void;
  /** Before the rename that publishes a staged file; what it throws is taken for the rename's own error. */
  readonly beforePublish?: (event: ResolveEvent) => void;
}

/** What was resolved. */
export interface ResolveEvent {
  readonly operation:
    | "stat"
    | "list"
    | "open"
    | "write"
    | "commit"
    | "remove"
    | "move"
    | "make-folder"
    | "make-link"
    | "walk";
  readonly path: WorkspacePath;
}

/** What `openRoot` takes besides the folder. */
export interface RootOptions {
  /** By default the surest that the platform has. */
  readonly containment?: Containment | undefined;
  /** Follow links that stay inside. Off by default: a link in any component is then refused. */
  readonly followSymlinks?: boolean;
  /**
   * Folders outside that a link may lead into where links are followed: what is in them has the link's own path as the
   * begin of its canonical path. None by default.
   */
  readonly trusted?: readonly TrustedFolder[];
  /** Serve files that have more than one name. Off by default. */
  readonly allowHardLinks?: boolean;
  /**
   * Remove what dead processes left behind once opened: staged files and trees under an aside name, everywhere below the
   * root, or with `top` only in the folder itself. Off by default: a root that is only read is never changed.
   */
  readonly sweep?: boolean | "top";
  readonly hooks?: RootHooks;
  /** What messages call the folder itself; the workspace's by default. */
  readonly shown?: string;
}

/** Judges the canonical path of an operation, once resolved and before anything is read or changed; throws to refuse. */
export type CanonicalCheck = (canonicalPath: WorkspacePath, found?: FoundThing) => void;

/** What every operation takes. */
export interface OperationOptions {
  readonly check?: CanonicalCheck;
}

/** Which entries a listing or a walk leaves out, as if they were not there. */
export type HideRule = (path: WorkspacePath, kind: EntryKind) => boolean;

/** What `list` takes. */
export interface ListOptions extends OperationOptions {
  readonly hide?: HideRule;
  /** Begin behind this name. */
  readonly after?: string;
  /** At most so many entries and problems; all by default. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

/** A folder's entries. */
export interface Listing {
  readonly canonicalPath: WorkspacePath;
  /** In order of the UTF-8 bytes of their names. */
  readonly entries: readonly Entry[];
  readonly problems: readonly Problem[];
  /** The last name of this page when more follow. */
  readonly next?: string;
}

/** What `openFile` takes. */
export interface OpenFileOptions extends OperationOptions {
  /** Links among the folders are followed beneath the root, and nowhere else, whatever it follows; the file may be none. */
  readonly followFolders?: boolean;
  /** A larger file is `TOO_LARGE`, before its first byte; one that grows while it is read, at that byte. */
  readonly maxBytes?: number;
}

/** A file that was opened: the one that was checked is the one that is read, whatever happens to its name. */
export interface OpenFile extends AsyncDisposable {
  readonly entry: Entry;
  readonly canonicalPath: WorkspacePath;
  /** Reads into all of `buffer` from `position` on; gives the count, less only at the end of the file. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** `read` at once, on this turn: for what is small and likely in memory. */
  readNow(buffer: Uint8Array, position: number): number;
  /** Whether the file's content was changed since it was opened, as far as size and times tell. */
  hasChanged(): boolean;
  /** Gives the descriptor back; twice is harmless. */
  close(): void;
}

/** What must stand at the target when a staged file is published. */
export type Precondition =
  | { readonly kind: "any" }
  | { readonly kind: "absent" }
  | {
      readonly kind: "match";
      readonly digest: Digest;
      /** Nothing at the path is as good. */
      readonly orAbsent?: boolean;
    };

/** What `stageWrite` takes. */
export interface StageOptions extends OperationOptions {
  /** Permission bits of a new file (0o644 by default); a replaced one keeps its own unless this is given. */
  readonly mode?: number;
  /** Modification time to set, in nanoseconds since 1970; now by default. Kept to the microsecond. */
  readonly mtimeNs?: bigint;
  /** What `commit` will be asked for, where it is known: refused early when it cannot hold. */
  readonly precondition?: Precondition;
  /** Make missing parents (the default); else a missing one is `NOT_FOUND`. */
  readonly createParents?: boolean;
  /** More bytes are `TOO_LARGE`. */
  readonly maxBytes?: number;
  /** Bytes that will come: `TOO_LARGE` or `DISK_FULL` at once when they may not, or have no room. */
  readonly announcedBytes?: number;
  /** Names the part of it that may be kept. */
  readonly part?: StagePart;
}

/** What `findPart` and `dropPart` take. */
export interface PartOptions extends OperationOptions {
  /** As `StagePart` has it. */
  readonly key: string;
  readonly signal?: AbortSignal;
}

/** What `commit` takes. */
export interface CommitOptions {
  readonly precondition: Precondition;
  /** What was announced: another size or digest is `INTEGRITY_FAILURE`, and nothing is published. */
  readonly expected?: { readonly sizeBytes: number; readonly digest?: Digest };
  /** Judges the canonical path again, as policy may have changed since the stage was made. */
  readonly check?: CanonicalCheck;
  readonly signal?: AbortSignal;
}

/** What a publication left. */
export interface WriteReceipt {
  readonly publication: "committed";
  readonly entry: Entry;
  readonly canonicalPath: WorkspacePath;
  readonly sizeBytes: number;
  readonly digest: Digest;
  /** Whether a file stood there before. */
  readonly replaced: boolean;
  /** Its digest, where the precondition needed it read. */
  readonly replacedDigest?: Digest;
}

/**
 * A file that is being written beside its target. Nothing is seen under the target's name before `commit`; disposing it
 * without one removes it and the folders that were made for it. A fault after the target may have changed carries
 * `details.publication` (`uncertain` or `committed`), an earlier one `unattempted`.
 */
export interface StagedFile extends AsyncDisposable {
  readonly canonicalPath: WorkspacePath;
  /** Bytes written so far. */
  readonly sizeBytes: number;
  /** Takes the next bytes; one call at a time, and the buffer is the caller's again once it resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Digest of the bytes written so far. */
  digest(): Digest;
  /** Syncs, compares and publishes. Once only. */
  commit(options: CommitOptions): Promise<WriteReceipt>;
  /** Whether what there is of it is kept under its part's key when it is discarded; not by default. */
  keep(isKept: boolean): void;
  /** Leaves target and folders as they were; harmless after `commit`. */
  discard(): Promise<void>;
}

/** What `BatchWriter.add` takes. */
export interface SmallWriteOptions extends OperationOptions {
  readonly precondition: Exclude<Precondition, { readonly kind: "match" }>;
  /** Permission bits. */
  readonly mode: number;
  /** Modification time to set, in nanoseconds since 1970; now by default. Kept to the microsecond. */
  readonly mtimeNs?: bigint;
  /** More bytes are `TOO_LARGE`. */
  readonly maxBytes?: number;
}

/** What `batchWrite` takes. */
export interface BatchWriteOptions {
  /**
   * What is written lies in a folder that nobody looks for yet, and that is renamed or removed as a whole: files have
   * their names at once. Off by default.
   */
  readonly isUnseen?: boolean;
}

/** What `BatchWriter.publish` takes. */
export interface BatchPublishOptions extends OperationOptions {
  readonly signal?: AbortSignal;
}

/** How a file of a batch ended. */
export interface BatchOutcome {
  readonly path: WorkspacePath;
  /** Why it is not there; undefined when it is. */
  readonly fault: Fault | undefined;
}

/**
 * Writes many small files: each is staged beside its target at once, all are brought to the disk together, then each
 * gets its name. Nothing is seen under a target's name before `publish`; disposing the writer removes what was not
 * published. One call at a time.
 */
export interface BatchWriter extends AsyncDisposable {
  /** Files staged and not published. */
  readonly count: number;
  /** Whether it is time to publish: the writer takes more, but holds them all in mind. */
  readonly isFull: boolean;
  /** Stages a file in this turn. Its folder must be there. Faults as `stageWrite`; nothing of the file is left then. */
  add(path: WorkspacePath, content: Uint8Array, options: SmallWriteOptions): void;
  /** Publishes what was staged; the outcomes are in the order of adding. */
  publish(options?: BatchPublishOptions): Promise<readonly BatchOutcome[]>;
  /** Brings the names to the disk as well: once, after the last publication. */
  sync(): Promise<void>;
}

/** What `move` takes. */
export interface MoveOptions {
  readonly checkFrom?: CanonicalCheck;
  readonly checkTo?: CanonicalCheck;
  /** Heeded between file systems only: elsewhere a move takes no time. */
  readonly signal?: AbortSignal;
}

/** What `makeFolder` takes. */
export interface MakeFolderOptions extends OperationOptions {
  /** Make missing parents too. */
  readonly parents?: boolean;
  /** A folder that stands there already is as good. */
  readonly allowExisting?: boolean;
  /** Permission bits; 0o755 by default. */
  readonly mode?: number;
}

/** What `makeLink` takes. */
export interface MakeLinkOptions extends OperationOptions {
  /** The folder that the link's text must not lead out of; the root by default. */
  readonly within?: WorkspacePath;
  /** Replace a link that stands there with another text; else it is `ALREADY_EXISTS`, as anything but a link is. */
  readonly replace?: boolean;
}

/** A folder that is held open. */
export interface OpenFolder extends AsyncDisposable {
  readonly canonicalPath: WorkspacePath;
  /** Where the kernel finds it while it is open, also for another process of this user: fit as a working directory. */
  readonly procPath: string;
}

/**
 * A folder, and all that is done beneath it. When another folder stands at its path, that one is meant from the next
 * operation on, and what still runs in the old one ends with `PATH_CHANGED`. Paths are relative to it and parsed already; what they lead to is opened
 * beneath the folder's own descriptor, so that a parent that is swapped meanwhile cannot lead out. It knows no policy
 * but what is asked of it with `check` and `hide`. Any number of operations may run at once; writes to one path are
 * published one after the other. Staged files are never listed, read, replaced or removed under their own name.
 */
export interface RootHandle extends AsyncDisposable {
  readonly containment: Containment;
  /** What the volume does not tell apart in names. */
  readonly folding: NameFolding;
  /** Which folder this is: a root that was replaced by another under the same name differs. */
  readonly identity: { readonly device: bigint; readonly inode: bigint; readonly bornNs: bigint };
  /** Resolves with the number of leftovers that the sweep removed; never rejects. */
  readonly swept: Promise<number>;
  stat(path: WorkspacePath, options?: OperationOptions): Promise<Entry>;
  /** What an operation on the path would act on, also where nothing stands yet. */
  look(path: WorkspacePath, options: LookOptions): Promise<Look>;
  list(path: WorkspacePath, options?: ListOptions): Promise<Listing>;
  /** Holds a folder open, so that a program can be started in it whatever its name becomes. The caller disposes it. */
  openFolder(path: WorkspacePath, options?: OperationOptions): Promise<OpenFolder>;
  openFile(path: WorkspacePath, options?: OpenFileOptions): Promise<OpenFile>;
  /** All bytes of a file that is at most `maxBytes` long, read at once. */
  readSmall(path: WorkspacePath, options: OpenFileOptions & { readonly maxBytes: number }): SmallFile;
  stageWrite(path: WorkspacePath, options?: StageOptions): Promise<StagedFile>;
  /** What is kept of a write to `path` under a key; undefined when nothing is. */
  findPart(path: WorkspacePath, options: PartOptions): Promise<FoundPart | undefined>;
  /** Takes away what is kept under a key, also what a running stage would keep. */
  dropPart(path: WorkspacePath, options: PartOptions): Promise<void>;
  /** Removes parts that were last written before a time, in milliseconds since 1970; gives their number. */
  expireParts(beforeMs: number): number;
  /** For many small files at once. The caller disposes the writer. */
  batchWrite(options?: BatchWriteOptions): BatchWriter;
  /** Gives the number of entries removed. */
  remove(path: WorkspacePath, options?: RemoveOptions): Promise<number>;
  /** Renames; nothing may stand at `to`. */
  move(from: WorkspacePath, to: WorkspacePath, options?: MoveOptions): Promise<Entry>;
  makeFolder(path: WorkspacePath, options?: MakeFolderOptions): Promise<Entry>;
  /**
   * Gives folders their times, after all that changes them was done. One that cannot have it (gone, another user's, not
   * allowed) keeps its own.
   */
  setFolderTimes(times: readonly FolderTime[], options?: OperationOptions): Promise<void>;
  /** A new name for a tree that is filled aside and then moved to its place; a sweep removes it when this process died. */
  createAsideName(): string;
  /**
   * Makes a symbolic link with the text `target`. One with that text already is as good. An absolute text, and one that
   * leads out, is `PATH_ESCAPES`; whether anything stands at the target is not asked.
   */
  makeLink(path: WorkspacePath, target: string, options?: MakeLinkOptions): Promise<Entry>;
  /**
   * Everything below `path` (not itself) in order of the paths' UTF-8 bytes, in batches of some ten milliseconds. Links
   * are not entered: one whose target stays beneath `path` is an entry, any other a problem.
   */
  walk(path: WorkspacePath, options?: WalkOptions): AsyncIterable<readonly WalkItem[]>;
}
