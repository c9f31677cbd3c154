/** One holder at a time for each path, in the order of asking. */
export class PathLocks {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs `work` once all earlier holders of `path` have ended. */
  async hold<T>(path: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(path);
    const done = Promise.withResolvers<void>();
    this.#tails.set(path, done.promise);
    try {
      await before;
      return await work();
    } finally {
      if (this.#tails.get(path) === done.promise) this.#tails.delete(path);
      done.resolve();
    }
  }
}
