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
  /** Its bytes. */
  readonly bytes: Readable;
}

/** Wraps the stream of standard input. */
export function createStandardInput(stream: Readable & { isTTY?: boolean }): StandardInput {
  return {
    isTerminal: stream.isTTY === true,
    bytes: stream,
    readText: async (options) => {
      const chunks: Buffer[] = [];
      let sizeBytes = 0;
      const onAbort = (): void => void stream.destroy();
      options.signal.addEventListener("abort", onAbort, { once: true });
      try {
        for await (const chunk of stream) {
          const bytes = Buffer.from(chunk);
          sizeBytes += bytes.byteLength;
          if (sizeBytes > options.maxBytes) {
            throw new Fault(
              "TOO_LARGE",
              `${options.what} on standard input is over ${options.maxBytes} bytes`,
              {
                details: { limit: options.maxBytes, actual: sizeBytes },
              },
            );
          }
          chunks.push(bytes);
        }
      } finally {
        options.signal.removeEventListener("abort", onAbort);
      }
      options.signal.throwIfAborted();
      const text = Buffer.concat(chunks).toString("utf8").trim();
      if (text === "") throw new Fault("INVALID_ARGUMENT", `${options.what} is missing on standard input`);
      return text;
    },
  };
}
