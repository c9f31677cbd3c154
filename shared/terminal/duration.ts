import { Fault } from "../fault/fault.ts";

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** A duration as people write it (`500ms`, `90s`, `10m`, `1.5h`, `30d`) in milliseconds, more than zero. */
export function parseDurationMs(text: string, field: string): number {
  const [, amount, unit = ""] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(text.trim()) ?? [];
  const value = Math.round(Number(amount) * (unitMs[unit] ?? Number.NaN));
  if (value > 0) return value;
  throw new Fault("INVALID_ARGUMENT", `--${field} is ${text || "empty"}; it must be a duration above zero`, {
    hint: `write it like 90s, 10m or 2h: --${field} 10m`,
    details: { field, actual: text },
  });
}

/** A duration for people: `3 s`, `12 min`, `5 h`, `8 d`. */
export function formatDuration(ms: number): string {
  const steps: readonly (readonly [number, string])[] = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
    [1_000, "s"],
  ];
  const step = steps.find(([size]) => ms >= size * 2) ?? steps.at(-1);
  return step && ms >= 1_000 ? `${Math.floor(ms / step[0])} ${step[1]}` : `${Math.max(0, Math.round(ms))} ms`;
}
