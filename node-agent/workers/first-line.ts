import type { Readable } from "node:stream";
import { Fault } from "../../shared/fault/fault.ts";

/**
 * The first line of `input` without its end; what follows stays in the stream for whoever reads it next. A longer line
 * than `maxBytes` is `TOO_LARGE`, an end before the first newline gives what came.
 */
export async function readFirstLine(input: Readable, maxBytes: number): Promise<string> {
  const kept: Buffer[] = [];
  let sizeBytes = 0;
  for (;;) {
    const chunk = input.read() as Buffer | null;
    if (chunk === null) {
      if (input.readableEnded || input.destroyed) return Buffer.concat(kept).toString("utf8");
      await nextEvent(input);
      continue;
    }
    const end = chunk.indexOf(0x0a);
    const part = end < 0 ? chunk : chunk.subarray(0, end);
    sizeBytes += part.byteLength;
    if (sizeBytes > maxBytes) {
      throw new Fault("TOO_LARGE", `the first line is longer than ${maxBytes} bytes`, {
        details: { limit: maxBytes, actual: sizeBytes },
      });
    }
    kept.push(part);
    if (end < 0) continue;
    if (end + 1 < chunk.byteLength) input.unshift(chunk.subarray(end + 1));
    return Buffer.concat(kept).toString("utf8");
  }
}

function nextEvent(input: Readable): Promise<void> {
  return new Promise((resolve) => {
    const events = ["readable", "end", "close", "error"] as const;
    const done = (): void => {
      for (const event of events) input.removeListener(event, done);
      resolve();
    };
    for (const event of events) input.once(event, done);
  });
}
