/** Vectors of equal length in memory, each under a number. */
export class VectorMatrix {
  readonly #dimensions: number;
  readonly #rows = new Map<number, number>();
  #ids: number[] = [];
  #numbers: Float32Array;

  /** Makes room for `count` vectors; it grows as more are put. */
  constructor(dimensions: number, count: number) {
    this.#dimensions = dimensions;
    this.#numbers = new Float32Array(Math.max(16, count) * dimensions);
  }

  /** Bytes that it holds on to. */
  get sizeBytes(): number {
    return this.#numbers.byteLength;
  }

  /** Puts a vector of the matrix's length under a number that it does not have yet. */
  put(id: number, vector: Float32Array): void {
    const row = this.#ids.length;
    if ((row + 1) * this.#dimensions > this.#numbers.length) {
      const more = new Float32Array(this.#numbers.length * 2);
      more.set(this.#numbers);
      this.#numbers = more;
    }
    this.#numbers.set(vector, row * this.#dimensions);
    this.#ids.push(id);
    this.#rows.set(id, row);
  }

  /** Takes a vector out; the last one takes its place. */
  remove(id: number): void {
    const row = this.#rows.get(id);
    if (row === undefined) return;
    this.#rows.delete(id);
    const last = this.#ids.pop();
    if (last === undefined || last === id) return;
    const from = this.#ids.length * this.#dimensions;
    this.#numbers.copyWithin(row * this.#dimensions, from, from + this.#dimensions);
    this.#ids[row] = last;
    this.#rows.set(last, row);
  }

  /** Tells `visit` the number of each vector and its product with `query`. */
  scan(query: Float32Array, visit: (id: number, score: number) => void): void {
    const { length } = this.#ids;
    for (let row = 0; row < length; row += 1) {
      visit(this.#ids[row] ?? 0, multiply(this.#numbers, row * this.#dimensions, query));
    }
  }
}

/** The product of `query` and the numbers from `from` on. The same for the same numbers wherever they stand. */
export function multiply(numbers: Float32Array, from: number, query: Float32Array): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  const { length } = query;
  const even = length - (length % 4);
  let at = 0;
  // Four sums at once keep the processor busy.
  for (; at < even; at += 4) {
    a += (numbers[from + at] ?? 0) * (query[at] ?? 0);
    b += (numbers[from + at + 1] ?? 0) * (query[at + 1] ?? 0);
    c += (numbers[from + at + 2] ?? 0) * (query[at + 2] ?? 0);
    d += (numbers[from + at + 3] ?? 0) * (query[at + 3] ?? 0);
  }
  for (; at < length; at += 1) a += (numbers[from + at] ?? 0) * (query[at] ?? 0);
  return a + b + c + d;
}
