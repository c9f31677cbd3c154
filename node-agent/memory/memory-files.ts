import { isUtf8 } from "node:buffer";
import { type Digest, digestOf } from "../../shared/content/digest.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Turn } from "../../shared/lifetime/turn.ts";
import {
  baseName,
  joinPath,
  parentPath,
  rootPath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import { KnownFiles } from "../../shared/root/known-files.ts";
import { readWhole, type WholeFile } from "../../shared/root/read-whole.ts";
import type { CanonicalCheck, Entry, RootHandle } from "../../shared/root/root-handle.ts";
import type { WalkItem } from "../../shared/root/walk-options.ts";
import { OneAtATime } from "../workers/one-at-a-time.ts";
import {
  isMemoryPath,
  memoryFolder,
  noMemoryFile,
  parseMemoryPath,
  rootMemoryFiles,
} from "./memory-paths.ts";

/** Longest memory file that is read, in bytes. */
export const maxMemoryFileBytes: number = 1024 * 1024;

/** Most entries below `memory/`. */
const maxEntries = 200_000;

const never = new AbortController().signal;

/** A memory file with the digest of its bytes. */
export interface MemoryFile {
  readonly entry: Entry;
  readonly digest: Digest;
}

/** The memory files of a workspace at one moment. */
export interface MemoryScan {
  /** In order of their paths. */
  readonly files: readonly MemoryFile[];
  readonly skipped: readonly { readonly path: string; readonly fault: Fault }[];
}

/** A memory file with its text. */
export interface MemoryFileText {
  readonly text: string;
  readonly digest: Digest;
  readonly canonicalPath: WorkspacePath;
}

/** The memory files of one workspace. What was read once is read again only when size, times or inode differ. */
export class MemoryFiles {
  readonly #root: RootHandle;
  readonly #known: KnownFiles<Digest>;
  readonly #scans = new OneAtATime();
  readonly #turn: Turn;

  constructor(root: RootHandle, clock: Clock) {
    this.#root = root;
    this.#known = new KnownFiles(clock);
    this.#turn = new Turn(clock);
  }

  /** Lists all memory files, each real one once, and what was skipped, as they are after this was called. */
  scan(signal: AbortSignal): Promise<MemoryScan> {
    return this.#scans.run(signal, () => this.#scan(signal));
  }

  async #scan(signal: AbortSignal): Promise<MemoryScan> {
    const files: MemoryFile[] = [];
    const skipped: { path: string; fault: Fault }[] = [];
    this.#known.begin();
    for await (const found of this.#find(signal)) {
      if ("fault" in found) {
        skipped.push(found);
        continue;
      }
      const looked = await this.#look(found);
      if (looked && typeof looked !== "string") skipped.push({ path: found.path, fault: looked });
      else if (looked) files.push({ entry: found, digest: looked });
      await this.#turn.pause(signal);
    }
    return { files, skipped };
  }

  /**
   * What these memory files are now, in their order: undefined for one that is gone, a Fault for one that cannot be read.
   * Any other path of the workspace is `POLICY_DENIED`.
   */
  async inspect(pathTexts: readonly string[]): Promise<readonly (MemoryFile | Fault | undefined)[]> {
    const found: (MemoryFile | Fault | undefined)[] = [];
    for (const path of pathTexts.map((text) => parseMemoryPath(text))) {
      found.push(await this.#inspectOne(path));
      await this.#turn.pause(never);
    }
    return found;
  }

  async #inspectOne(path: WorkspacePath): Promise<MemoryFile | Fault | undefined> {
    try {
      const entry = await this.#root.stat(path, { check: await this.#checkOf(path) });
      const looked = await this.#look(entry);
      return typeof looked === "string" ? { entry, digest: looked } : looked;
    } catch (error) {
      if (!isFault(error)) throw error;
      return isAbsent(error) || error.code === "NOT_A_DIRECTORY" ? undefined : error;
    }
  }

  /** A memory file's text; undefined when there is none. Any other path of the workspace is `POLICY_DENIED`. */
  async read(pathText: string): Promise<MemoryFileText | undefined> {
    const path = parseMemoryPath(pathText);
    try {
      const file = await this.#readText(path);
      return {
        text: file.content.toString("utf8"),
        digest: digestOf(file.content),
        canonicalPath: file.entry.canonicalPath,
      };
    } catch (error) {
      if (isFault(error, "NOT_FOUND") || isFault(error, "NOT_A_DIRECTORY")) return undefined;
      throw error;
    }
  }

  async #readText(path: WorkspacePath): Promise<WholeFile> {
    try {
      const file = await readWhole(this.#root, path, {
        maxBytes: maxMemoryFileBytes,
        check: await this.#checkOf(path),
      });
      if (!file) throw busy(path);
      if (!isUtf8(file.content)) throw notText(path);
      return file;
    } catch (error) {
      // The workspace's own limit may be lower, and is then the one to raise.
      if (!isFault(error, "TOO_LARGE") || error.details["limit"] !== maxMemoryFileBytes) throw error;
      throw error.with({ hint: `split it: a memory file has at most ${maxMemoryFileBytes} bytes` });
    }
  }

  /** Refuses a link at the end of the path; one among the folders is judged by what it leads to. */
  async #checkOf(path: WorkspacePath): Promise<CanonicalCheck> {
    const expected = joinPath(await this.#canonicalFolder(parentPath(path) ?? rootPath), baseName(path));
    return (canonicalPath) => {
      if (canonicalPath !== expected) throw linkRefused(path);
      if (!isMemoryPath(canonicalPath)) throw noMemoryFile(canonicalPath);
    };
  }

  async #canonicalFolder(path: WorkspacePath): Promise<WorkspacePath> {
    if (path === rootPath) return path;
    try {
      return (await this.#root.stat(path)).canonicalPath;
    } catch (error) {
      // Where a folder itself may not be looked at, what lies in it may be read by its own name, without links.
      if (isFault(error, "POLICY_DENIED")) return path;
      throw error;
    }
  }

  async *#find(signal: AbortSignal): AsyncIterable<Entry | { readonly path: string; readonly fault: Fault }> {
    for (const path of rootMemoryFiles) {
      try {
        yield await this.#root.stat(path);
      } catch (error) {
        if (!isFault(error)) throw error;
        if (!isAbsent(error)) yield { path, fault: error };
      }
    }
    try {
      for await (const batch of this.#root.walk(memoryFolder, { signal, maxEntries, asListed: true })) {
        for (const item of batch)
          if (isAboutMemory(item)) yield item.kind === "entry" ? item.entry : item.problem;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!isFault(error)) throw error;
      if (!isAbsent(error)) yield { path: memoryFolder, fault: error };
    }
  }

  /** The file's digest, why it is skipped, or undefined when it is gone. */
  async #look(entry: Entry): Promise<Digest | Fault | undefined> {
    const known = this.#known.find(entry);
    if (known !== undefined) return known;
    try {
      const file = await this.#readText(entry.path);
      const digest = digestOf(file.content);
      this.#known.keep(file.entry, digest);
      return digest;
    } catch (error) {
      if (!isFault(error)) throw error;
      return error.code === "NOT_FOUND" ? undefined : error;
    }
  }
}

/** What this machine does not show is not there, as far as anyone outside can tell. */
function isAbsent(fault: Fault): boolean {
  return fault.code === "NOT_FOUND" || fault.code === "POLICY_DENIED";
}

function isAboutMemory(item: WalkItem): boolean {
  if (item.kind === "problem") return true;
  const { kind, path } = item.entry;
  // A link may lead to a folder of memory files whatever its name.
  return kind === "link" || (kind !== "folder" && baseName(path).endsWith(".md"));
}

function busy(path: string): Fault {
  return new Fault("PATH_CHANGED", `${path} changes faster than it can be read`, { details: { path } });
}

function notText(path: string): Fault {
  return new Fault("UNSUPPORTED_FILE_TYPE", `${path} is not valid UTF-8`, {
    details: { path, reason: "not_utf8" },
    hint: "save the file as UTF-8",
  });
}

function linkRefused(path: string): Fault {
  return new Fault("SYMLINK_REFUSED", `${path} is a link; its target is listed where it lies`, {
    details: { path },
  });
}
