const dayMs = 86_400_000;

/** What is left of a score after `ageMs`: half after each `halfLifeDays`. Those of 0 take nothing, nor does the future. */
export function decayFactor(ageMs: number, halfLifeDays: number): number {
  if (halfLifeDays <= 0 || ageMs <= 0) return 1;
  return 0.5 ** (ageMs / dayMs / halfLifeDays);
}
