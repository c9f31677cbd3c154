import { Writable } from "node:stream";

/** A stream that keeps what is written to it. */
export interface CollectedLines {
  readonly stream: Writable;
  /** The whole lines so far. */
  lines(): readonly string[];
}

/** Begins empty; for a few lines of one test. */
export function collectLines(): CollectedLines {
  let text = "";
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString("utf8");
      done();
    },
  });
  return { stream, lines: () => text.split("\n").slice(0, -1) };
}
