/** A request of one message that is there as a whole. Unlike others it may be read again. */
export class OneMessage<T> implements AsyncIterable<T> {
  readonly message: T;

  constructor(message: T) {
    this.message = message;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, undefined> {
    yield this.message;
  }
}

/** The one message of a request that is there as a whole; undefined for any other. */
export function oneMessageOf<T>(messages: AsyncIterable<T>): T | undefined {
  return messages instanceof OneMessage ? messages.message : undefined;
}
