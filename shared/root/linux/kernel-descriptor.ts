import { type BigIntStats, closeSync, constants, fstatSync, openSync, readlinkSync } from "node:fs";
import { at, type Descriptor, type EntryName } from "./descriptor.ts";

// Linux's O_PATH, which Node's constants leave out: a descriptor that only names a thing and runs no device's open.
const oPath = 0o10000000;
const { O_NOFOLLOW, O_DIRECTORY, O_RDONLY, O_NONBLOCK, O_NOCTTY } = constants;

/** The folder at an absolute path, links in it resolved: for roots only. */
export function openTop(absolutePath: string): Descriptor {
  return new KernelDescriptor(openSync(absolutePath, oPath | O_DIRECTORY));
}

/**
 * An open folder or file that only names it (`O_PATH`). Node has no `openat`; on Linux `/proc/self/fd/N/name` is the same,
 * since the kernel resolves N through the descriptor.
 */
class KernelDescriptor implements Descriptor {
  readonly #fd: number;
  #isOpen = true;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** A closed one has none: its number may mean another file by now. */
  get path(): string {
    if (!this.#isOpen) throw new Error("the descriptor was closed");
    return `/proc/self/fd/${this.#fd}`;
  }

  /** Another program's descriptors are not ours. */
  get pathForOthers(): string {
    return `/proc/${process.pid}/fd/${this.#fd}`;
  }

  get realPath(): string {
    return readlinkSync(this.path);
  }

  stat(): BigIntStats {
    return fstatSync(this.#fd, { bigint: true });
  }

  enter(name: EntryName): Descriptor {
    return new KernelDescriptor(openSync(at(this, name), oPath | O_DIRECTORY | O_NOFOLLOW));
  }

  hold(name: EntryName): Descriptor {
    return new KernelDescriptor(openSync(at(this, name), oPath | O_NOFOLLOW));
  }

  again(): Descriptor {
    return new KernelDescriptor(openSync(this.path, oPath | O_DIRECTORY));
  }

  elsewhere(realPath: string): Descriptor {
    return new KernelDescriptor(openSync(realPath, oPath | O_DIRECTORY | O_NOFOLLOW));
  }

  openForReading(): number {
    return openSync(this.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  }

  open(name: EntryName, flags: number, mode?: number): number {
    return openSync(at(this, name), flags, mode);
  }

  openForSync(): number {
    return openSync(this.path, O_RDONLY | O_DIRECTORY);
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeSync(this.#fd);
  }
}
