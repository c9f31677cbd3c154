import { Fault } from "../../shared/fault/fault.ts";
import type {
  EntryProblem,
  FileTrailer,
  TreeEntry,
  TreeTrailer,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { contentBytes, contentOf } from "../../shared/tree/pack-parts.ts";
import { assertTrailer, createTreeTally, type TreeTally } from "../../shared/tree/tree-tally.ts";

/** What the messages of a tree have in common, whichever way it goes. */
export interface TreePart {
  readonly entries: TreeEntry[];
  readonly problems?: EntryProblem[];
  readonly fileTrailer?: FileTrailer | undefined;
  readonly treeTrailer?: TreeTrailer | undefined;
  readonly content: Uint8Array;
}

/** How a tree is filtered. */
export interface TreeFilterOptions {
  /** Why an entry may not pass; its path is relative to the tree's root. */
  readonly denial: (path: string) => Fault | undefined | Promise<Fault | undefined>;
  /** Why the file at `path` may not be copied from; what nothing is said of may not. */
  readonly denialOfCopy?: (path: string) => Fault | undefined | Promise<Fault | undefined>;
  /** Whether an entry that may not pass is not even to be named; none by default. */
  readonly isHidden?: (path: string) => Promise<boolean>;
  /** An entry that was left out and may be named; may throw to end the tree. */
  readonly onDenied: (path: string, fault: Fault) => void;
}

/** Filters the messages of one tree, in order. */
export interface TreeFilter {
  /** What of `part` may pass; the same object when all of it may. */
  pass<P extends TreePart>(part: P): Promise<P>;
}

/**
 * Leaves out what policy denies, with its content, and makes the closing message fit what is left. A tree whose closing
 * message does not fit what came is `INTEGRITY_FAILURE`.
 */
export function createTreeFilter(options: TreeFilterOptions): TreeFilter {
  return new Filter(options);
}

class Filter implements TreeFilter {
  readonly #options: TreeFilterOptions;
  readonly #came: TreeTally = createTreeTally();
  readonly #left: TreeTally = createTreeTally();
  #open: { readonly entry: TreeEntry["entry"] & object; readonly isDenied: boolean } | undefined;
  /** How many more entries have failed than the sender says. */
  #failedMore = 0n;
  #isCut = false;

  constructor(options: TreeFilterOptions) {
    this.#options = options;
  }

  async pass<P extends TreePart>(whole: P): Promise<P> {
    const part = await this.#passProblems(whole);
    if (part.entries.length > 0) return this.#passEntries(part);
    if (part.fileTrailer) return this.#passFileTrailer(part, part.fileTrailer);
    if (part.treeTrailer) return this.#passTreeTrailer(part, part.treeTrailer);
    return this.#open?.isDenied === true ? emptied(part) : part;
  }

  async #passEntries<P extends TreePart>(part: P): Promise<P> {
    const kept: TreeEntry[] = [];
    const ranges: { readonly from: number; readonly to: number }[] = [];
    const wholeBytes = contentBytes(part);
    let at = 0;
    for (const item of part.entries) {
      const { entry } = item;
      if (!entry || this.#open) throw malformed("an entry begins where none may");
      const end = at + Number(item.inlineBytes);
      if (end > wholeBytes) throw malformed("a message holds less content than its entries say");
      const waiting = this.#options.denial(entry.path);
      const fault = (waiting instanceof Promise ? await waiting : waiting) ?? (await this.#judgeCopy(item));
      if (fault) {
        await this.#leaveOut(entry.path, fault);
      } else {
        kept.push(item);
        if (end > at) ranges.push({ from: at, to: end });
      }
      if (item.streamed) this.#open = { entry, isDenied: fault !== undefined };
      else this.#count(entry, fault !== undefined);
      at = end;
    }
    if (at !== wholeBytes) throw malformed("a message holds more content than its entries say");
    if (kept.length === part.entries.length) return part;
    const whole = await contentOf(part);
    const content = Buffer.concat(ranges.map(({ from, to }) => whole.subarray(from, to)));
    return { ...part, entries: kept, content, packedBytes: 0 };
  }

  /** What is not to be named is not named as a problem either. */
  async #passProblems<P extends TreePart>(part: P): Promise<P> {
    const { isHidden } = this.#options;
    const { problems = [] } = part;
    if (!isHidden || problems.length === 0) return part;
    const kept: EntryProblem[] = [];
    for (const problem of problems) if (!(await isHidden(problem.path))) kept.push(problem);
    if (kept.length === problems.length) return part;
    this.#isCut = true;
    this.#failedMore -= BigInt(problems.length - kept.length);
    return { ...part, problems: kept };
  }

  async #leaveOut(path: string, fault: Fault): Promise<void> {
    this.#isCut = true;
    if ((await this.#options.isHidden?.(path)) === true) return;
    this.#failedMore += 1n;
    this.#options.onDenied(path, fault);
  }

  async #judgeCopy({ copyFrom }: TreeEntry): Promise<Fault | undefined> {
    if (copyFrom === "") return undefined;
    const judge = this.#options.denialOfCopy;
    // To whoever receives the tree it would be one more name of a file of his own.
    if (!judge)
      return new Fault("HARDLINK_REFUSED", "a file that is sent has content of its own, and is no copy");
    return await judge(copyFrom);
  }

  #passFileTrailer<P extends TreePart>(part: P, trailer: FileTrailer): P {
    const open = this.#open;
    if (!open) throw malformed("a file ends that did not begin");
    this.#open = undefined;
    // The sender gave it up, and says why among the problems.
    if (trailer.digest === "") return open.isDenied ? emptied(part) : part;
    this.#count({ ...open.entry, sizeBytes: trailer.sizeBytes, digest: trailer.digest }, open.isDenied);
    return open.isDenied ? emptied(part) : part;
  }

  #passTreeTrailer<P extends TreePart>(part: P, trailer: TreeTrailer): P {
    if (this.#open) throw malformed("the tree ends in the middle of a file");
    assertTrailer(this.#came, trailer);
    if (!this.#isCut) return part;
    return { ...part, treeTrailer: this.#left.trailer(trailer.failed + this.#failedMore) };
  }

  #count(entry: TreeEntry["entry"] & object, isDenied: boolean): void {
    this.#came.add(entry);
    if (!isDenied) this.#left.add(entry);
  }
}

function emptied<P extends TreePart>(part: P): P {
  return { ...part, content: new Uint8Array(), packedBytes: 0, fileTrailer: undefined };
}

function malformed(why: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `the tree is malformed: ${why}`);
}
