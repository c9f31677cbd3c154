/** Something that holds vectors in memory and can let go of them. */
export interface MemoryHolder {
  /** Lets go of what it holds; it reads it again when it needs it. */
  dropVectors(): void;
}

/** The memory that the vectors of several indexes may take together: whoever used it least recently lets go first. */
export class VectorMemory {
  readonly #maxBytes: number;
  /** Least recently used first. */
  readonly #held = new Map<MemoryHolder, number>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that are held. */
  get sizeBytes(): number {
    return [...this.#held.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  /** `holder` uses so many bytes now; others let go until there is room. False when it may not hold so many at all. */
  use(holder: MemoryHolder, bytes: number): boolean {
    this.release(holder);
    if (bytes > this.#maxBytes) return false;
    this.#held.set(holder, bytes);
    for (let over = this.sizeBytes - this.#maxBytes; over > 0; over = this.sizeBytes - this.#maxBytes) {
      const oldest = this.#held.keys().next().value;
      if (!oldest) break;
      this.#held.delete(oldest);
      oldest.dropVectors();
    }
    return true;
  }

  /** `holder` holds nothing any more. */
  release(holder: MemoryHolder): void {
    this.#held.delete(holder);
  }
}
