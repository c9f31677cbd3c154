/** Longest waiting time that a provider may ask for, in milliseconds. */
export const maxRetryAfterMs = 3_600_000;

/** How long a `Retry-After` header asks to wait, in milliseconds: seconds or a date. Undefined when it says nothing. */
export function readRetryAfterMs(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  const seconds = Number(header);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - nowMs;
  return Number.isFinite(waitMs) ? Math.min(Math.max(0, waitMs), maxRetryAfterMs) : undefined;
}
