import { rmSync } from "node:fs";
import { open, readdir, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { type Digest, digestOf, isDigest } from "../../shared/content/digest.ts";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { makePrivateFolder, writePrivateFile } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";

/** Longer content is not kept, in bytes: it would be read whole before the first of it is served. */
export const maxContentBytes: number = 16 * 1024 * 1024;

/** So much content is known at once, whatever its size. */
const maxContents = 100_000;

/** When content was used is noted on the disk at most so often, in milliseconds. */
const noteUseEveryMs = 60_000;

/**
 * Content of a node. A digest alone names nothing: whoever knows one learns nothing by it, and a node that tells of a
 * digest is given no content that it has not supplied itself.
 */
export interface ContentKey {
  readonly nodeId: string;
  readonly digest: Digest;
}

/** Content that was found, and is not dropped before it is disposed. */
export interface OpenContent extends Disposable {
  /** All of it, as its digest says. */
  readonly bytes: Buffer;
}

/** What `openContentStore` takes. */
export interface ContentStoreOptions {
  /** Made when it is not there. */
  readonly dir: string;
  /** Bytes that are kept; beyond that goes what was used least recently. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** How full the store is. */
export interface ContentUse {
  readonly contents: number;
  readonly bytes: number;
}

/**
 * What the gateway has seen of its nodes' content, on its own disk: `<dir>/<node id>/<first two digits>/<64 digits>`.
 * All of it can be had from the nodes again. What is referred to or open is never dropped, so that it may be more than
 * `maxBytes` by that much and no more.
 */
export interface ContentStore {
  /**
   * The content, read and verified now; undefined when it is not there. Altered content is `INTEGRITY_FAILURE`, every
   * time until it is kept anew.
   */
  open(key: ContentKey): Promise<OpenContent | undefined>;
  /**
   * Keeps content that the node has supplied; says whether it is kept, which it is not when it is too long, has no
   * room, or the disk refuses it. Bytes that are not those of the digest are `INTEGRITY_FAILURE`.
   */
  keep(key: ContentKey, bytes: Uint8Array): Promise<boolean>;
  /** What `holder` refers to from now on, in place of what it did before. Only what is there or comes later is held. */
  refer(holder: string, keys: Iterable<ContentKey>): void;
  /** Drops all content of a node. */
  forget(nodeId: string): Promise<void>;
  readonly use: ContentUse;
}

interface Content {
  sizeBytes: number;
  usedAt: number;
  notedAt: number;
  /** How many have it open. */
  readers: number;
  /** Its bytes were found to be others. */
  isDamaged: boolean;
}

/** Opens the store: what a crash left half-written is removed, and it is brought under its size. */
export async function openContentStore(options: ContentStoreOptions): Promise<ContentStore> {
  await makePrivateFolder(options.dir);
  const store = new Contents(options);
  await store.load();
  return store;
}

class Contents implements ContentStore {
  readonly #options: ContentStoreOptions;
  /** The least recently used first. */
  readonly #contents = new Map<string, Content>();
  readonly #references = new Map<string, ReadonlySet<string>>();
  readonly #writing = new Map<string, Promise<boolean>>();
  #bytes = 0;

  constructor(options: ContentStoreOptions) {
    this.#options = options;
  }

  get use(): ContentUse {
    return { contents: this.#contents.size, bytes: this.#bytes };
  }

  async load(): Promise<void> {
    const found: (readonly [string, Content])[] = [];
    for await (const [name, sizeBytes, usedAt] of findContents(this.#options.dir)) {
      found.push([name, { sizeBytes, usedAt, notedAt: usedAt, readers: 0, isDamaged: false }]);
      this.#bytes += sizeBytes;
    }
    for (const [name, content] of found.toSorted(([, a], [, b]) => a.usedAt - b.usedAt))
      this.#contents.set(name, content);
    this.#makeRoom();
  }

  async open(key: ContentKey): Promise<OpenContent | undefined> {
    const name = nameOf(key);
    const content = this.#contents.get(name);
    if (!content) return undefined;
    content.readers += 1;
    let isLeft = false;
    const leave = (): void => {
      if (isLeft) return;
      isLeft = true;
      content.readers -= 1;
    };
    try {
      const bytes = await this.#read(name, content);
      if (bytes === "gone") {
        leave();
        this.#take(name, content);
        return undefined;
      }
      if (!bytes || bytes.byteLength !== content.sizeBytes || digestOf(bytes) !== key.digest) {
        content.isDamaged = true;
        throw damaged(key);
      }
      await this.#used(name, content);
      return { bytes, [Symbol.dispose]: leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  async keep(key: ContentKey, bytes: Uint8Array): Promise<boolean> {
    if (digestOf(bytes) !== key.digest) {
      throw new Fault("INTEGRITY_FAILURE", "the content is not that of its digest", {
        details: { expected: key.digest, actual: digestOf(bytes) },
      });
    }
    if (bytes.byteLength > Math.min(maxContentBytes, this.#options.maxBytes)) return false;
    const name = nameOf(key);
    const known = this.#contents.get(name);
    if (known && !known.isDamaged) {
      await this.#used(name, known);
      return true;
    }
    const running = this.#writing.get(name);
    if (running) return await running;
    const writing = this.#write(name, bytes);
    this.#writing.set(name, writing);
    try {
      return await writing;
    } finally {
      this.#writing.delete(name);
    }
  }

  refer(holder: string, keys: Iterable<ContentKey>): void {
    const names = new Set(Array.from(keys, nameOf));
    if (names.size === 0) this.#references.delete(holder);
    else this.#references.set(holder, names);
  }

  async forget(nodeId: string): Promise<void> {
    const isOfNode = (name: string): boolean => name.startsWith(`${nodeId}/`);
    await Promise.all([...this.#writing].filter(([name]) => isOfNode(name)).map(([, writing]) => writing));
    for (const [name, content] of this.#contents) if (isOfNode(name)) this.#take(name, content);
    await rm(join(this.#options.dir, nodeOf(nodeId)), { recursive: true, force: true });
  }

  /** The bytes on the disk; undefined when they cannot be read or are another number. */
  async #read(name: string, content: Content): Promise<Buffer | "gone" | undefined> {
    try {
      await using file = await open(join(this.#options.dir, name), "r");
      const { size } = await file.stat();
      return size === content.sizeBytes ? await file.readFile() : undefined;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      return errno === "ENOENT" ? "gone" : undefined;
    }
  }

  async #write(name: string, bytes: Uint8Array): Promise<boolean> {
    const file = join(this.#options.dir, name);
    try {
      await makePrivateFolder(join(file, ".."));
      await writePrivateFile(file, bytes);
    } catch (error) {
      // Nothing is lost with it: the node has it.
      const { code, message } = faultFromError(error);
      this.#options.log.warn("content could not be kept", { code, reason: message });
      await rm(`${file}.new`, { force: true }).catch(() => undefined);
      return false;
    }
    const now = this.#options.clock.now();
    await this.#noteUse(name, now);
    // The same object as before: whoever has it open leaves it later.
    const content = this.#contents.get(name) ?? {
      sizeBytes: 0,
      usedAt: 0,
      notedAt: 0,
      readers: 0,
      isDamaged: false,
    };
    this.#bytes += bytes.byteLength - content.sizeBytes;
    Object.assign(content, { sizeBytes: bytes.byteLength, usedAt: now, notedAt: now, isDamaged: false });
    this.#contents.delete(name);
    this.#contents.set(name, content);
    this.#makeRoom();
    return this.#contents.has(name);
  }

  /** It is the most recently used now. */
  async #used(name: string, content: Content): Promise<void> {
    const now = this.#options.clock.now();
    content.usedAt = now;
    if (this.#contents.get(name) === content) {
      this.#contents.delete(name);
      this.#contents.set(name, content);
    }
    if (now - content.notedAt < noteUseEveryMs) return;
    content.notedAt = now;
    await this.#noteUse(name, now);
  }

  /** For the next start: without it the order is another then, and nothing else. */
  async #noteUse(name: string, now: number): Promise<void> {
    const seconds = now / 1000;
    await utimes(join(this.#options.dir, name), seconds, seconds).catch(() => undefined);
  }

  #take(name: string, content: Content): void {
    if (this.#contents.get(name) !== content) return;
    this.#contents.delete(name);
    this.#bytes -= content.sizeBytes;
  }

  /** Drops what was used least recently, until the rest fits; in this turn, so that nothing is kept anew meanwhile. */
  #makeRoom(): void {
    const { maxBytes, dir } = this.#options;
    const isOver = (): boolean => this.#bytes > maxBytes || this.#contents.size > maxContents;
    if (!isOver()) return;
    const held = new Set([...this.#references.values()].flatMap((names) => [...names]));
    for (const [name, content] of this.#contents) {
      if (!isOver()) return;
      if (content.readers > 0 || held.has(name)) continue;
      rmSync(join(dir, name), { force: true });
      this.#take(name, content);
    }
  }
}

function damaged({ digest }: ContentKey): Fault {
  return new Fault("INTEGRITY_FAILURE", "content that the gateway has kept was altered on its disk", {
    hint: "look at that disk; the content comes from its node again once the node is online: fairlead nodes ls",
    details: { digest },
  });
}

const idShape = /^[0-9a-z]{1,64}$/;
const digits = /^[0-9a-f]{64}$/;
const leftOver = /^[0-9a-f]{64}\.new$/;

/** The id of a node as a name of a folder. */
function nodeOf(nodeId: string): string {
  if (idShape.test(nodeId)) return nodeId;
  throw new Fault("INVALID_ARGUMENT", "that is no id of a node", { details: { field: "nodeId" } });
}

function nameOf({ nodeId, digest }: ContentKey): string {
  const hex = digest.slice("sha256:".length);
  return `${nodeOf(nodeId)}/${hex.slice(0, 2)}/${hex}`;
}

/** What lies in the store's folder: name, size, and when it was used. What is not the store's is left alone. */
async function* findContents(dir: string): AsyncGenerator<readonly [string, number, number], void> {
  for (const nodeId of await namesIn(dir, idShape)) {
    for (const first of await namesIn(join(dir, nodeId), /^[0-9a-f]{2}$/)) {
      const folder = join(dir, nodeId, first);
      for (const name of await namesIn(folder, leftOver)) await rm(join(folder, name), { force: true });
      for (const name of await namesIn(folder, digits)) {
        if (!name.startsWith(first) || !isDigest(`sha256:${name}`)) continue;
        const { size, mtimeMs } = await stat(join(folder, name));
        yield [`${nodeId}/${first}/${name}`, size, mtimeMs];
      }
    }
  }
}

async function namesIn(folder: string, shape: RegExp): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => shape.test(name));
  } catch (error) {
    if (errnoOf(error) === "ENOTDIR") return [];
    throw faultFromErrno(error, "the content store");
  }
}
