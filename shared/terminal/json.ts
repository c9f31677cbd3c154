/** A time as `--json` shows it, RFC 3339 in UTC; null for 0 (never) and for what is no time. */
export function toTime(ms: number | bigint): string | null {
  const value = Number(ms);
  return value === 0 || !Number.isFinite(new Date(value).getTime()) ? null : new Date(value).toISOString();
}

/** A `snake_case` state or reason as people read it: `waiting for approval`. */
export function toWords(state: string): string {
  return state.replaceAll("_", " ");
}
