import type { Readable } from "node:stream";
import { Fault } from "../fault/fault.ts";

/** How to read standard input. */
export interface ReadTextOptions {
  /** What is read, for messages: `the join code`. */
  readonly what: string;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** Standard input. */
export interface StandardInput {
  readonly isTerminal: boolean;
  /** All of it as text, without the blanks around it; `TOO_LARGE` above the limit, `INVALID_ARGUMENT` when empty. */
  readText(options: ReadTextOptions): Promise<string>;
  /** Its first line in the same way; the input stays open for whoever reads on. */
  readLine(options: ReadTextOptions): Promise<string>;
  /** Its bytes. */
  readonly bytes: Readable;
}

/** Wraps the stream of standard input. */
export function createStandardInput(stream: Readable & { isTTY?: boolean }): StandardInput {
  return {
    isTerminal: stream.isTTY === true,
    bytes: stream,
    readText: (options) => readUntil(stream, () => -1, options),
    readLine: (options) => readUntil(stream, (bytes) => bytes.indexOf(0x0a), options),
  };
}

/** Reads to the end, or to where `endOf` finds the end in what came. */
async function readUntil(
  stream: Readable,
  endOf: (bytes: Buffer) => number,
  options: ReadTextOptions,
): Promise<string> {
  options.signal.throwIfAborted();
  let bytes = Buffer.alloc(0);
  const done = Promise.withResolvers<Buffer>();
  const onData = (chunk: Buffer | string): void => {
    bytes = Buffer.concat([bytes, Buffer.from(chunk)]);
    const end = endOf(bytes);
    if (end !== -1) done.resolve(bytes.subarray(0, end));
    else if (bytes.length > options.maxBytes) done.reject(tooLarge(options, bytes.length));
  };
  const onEnd = (): void => done.resolve(bytes);
  const onAbort = (): void => done.reject(options.signal.reason);
  stream.on("data", onData).once("end", onEnd).once("close", onEnd).once("error", done.reject);
  options.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const text = (await done.promise).toString("utf8").trim();
    if (text !== "") return text;
    throw new Fault("INVALID_ARGUMENT", `${options.what} is missing on standard input`);
  } finally {
    stream.off("data", onData).off("end", onEnd).off("close", onEnd).off("error", done.reject);
    stream.pause();
    options.signal.removeEventListener("abort", onAbort);
  }
}

function tooLarge(options: ReadTextOptions, actual: number): Fault {
  return new Fault("TOO_LARGE", `${options.what} on standard input is over ${options.maxBytes} bytes`, {
    details: { limit: options.maxBytes, actual },
  });
}
