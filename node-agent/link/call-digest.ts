import { createHash, type Hash } from "node:crypto";

/** Digest over the messages of a request as they are read. */
export class RequestDigest {
  readonly #hash: Hash = createHash("sha256");
  #readCount = 0;

  /** Messages that were read. */
  get readCount(): number {
    return this.#readCount;
  }

  /** Over what was read so far. */
  get digest(): Uint8Array {
    return this.#hash.copy().digest();
  }

  /** Takes the next message. */
  add(message: Uint8Array): void {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(message.byteLength);
    this.#hash.update(length).update(message);
    this.#readCount += 1;
  }

  /** The messages as they pass. */
  async *each(messages: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const message of messages) {
      this.add(message);
      yield message;
    }
  }
}

/** Whether the messages of a repeat begin as those that the first call read. */
export async function isSameRequest(
  first: { readonly digest: Uint8Array; readonly readCount: number },
  messages: AsyncIterable<Uint8Array>,
): Promise<boolean> {
  const again = new RequestDigest();
  const iterator = messages[Symbol.asyncIterator]();
  while (again.readCount < first.readCount) {
    const next = await iterator.next();
    if (next.done) return false;
    again.add(next.value);
  }
  return Buffer.from(again.digest).equals(first.digest);
}
