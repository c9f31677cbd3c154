/** Bounds of what a client sends in one message. */
export const bodyLimits = { bytes: 4_194_304, depth: 64 } as const;

/** How many objects and lists stand within each other in JSON text, counted without parsing it. */
export function measureDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (token === "{" || token === "[") {
      depth += 1;
      deepest = Math.max(deepest, depth);
    } else if (token === "}" || token === "]") depth -= 1;
  }
  return deepest;
}

/** The text of a request's body, or undefined when it is larger than allowed. */
export async function readBody(request: Request): Promise<string | undefined> {
  const announced = Number(request.headers.get("content-length") ?? "0");
  if (announced > bodyLimits.bytes) return undefined;
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of request.body ?? []) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > bodyLimits.bytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, sizeBytes).toString("utf8");
}
