import { Fault } from "../fault/fault.ts";

/** Reads `chunks` to their end; more than `limitBytes` is `TOO_LARGE` that names the limit, before more is kept. */
export async function readToLimit(chunks: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  const kept: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > limitBytes) {
      throw new Fault("TOO_LARGE", `the input is larger than ${limitBytes} bytes`, {
        details: { limit: limitBytes, actual: sizeBytes },
      });
    }
    kept.push(chunk);
  }
  return Buffer.concat(kept, sizeBytes);
}
