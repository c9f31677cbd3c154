/**
 * A time in nanoseconds as the seconds that Node's `utimes` calls take. A double holds today's times to about a quarter
 * of a microsecond, and what is behind it is cut off: so that no time falls into the microsecond before, the next
 * double is taken where that would happen.
 */
export function toSeconds(timeNs: bigint): number {
  const wantedUs = Number(timeNs / 1000n);
  const seconds = wantedUs / 1e6;
  const keptUs = Math.floor(((seconds - Math.floor(seconds)) * 1e9) / 1000) + Math.floor(seconds) * 1e6;
  return keptUs < wantedUs ? seconds + spacing(seconds) : seconds;
}

/** Distance from `value` to the next double. */
function spacing(value: number): number {
  return 2 ** (Math.floor(Math.log2(value)) - 52);
}
