import { expect } from "vitest";
import { attackContainment, type AttackOutcome } from "../../../node-agent/workspace/attack-containment.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** How long an attack goes on: until both numbers are reached. */
export interface Attack {
  readonly swaps: number;
  readonly operations: number;
  readonly followSymlinks: boolean;
}

/** Runs the suite of `node doctor --attack` in a folder of its own; fails when anything escaped, or is left. */
export async function attackSwappedParent({
  swaps,
  operations,
  followSymlinks,
}: Attack): Promise<Omit<AttackOutcome, "cases"> & { readonly done: number; readonly refused: number }> {
  await using folder = await makeTempFolder();
  const { signal } = new AbortController();
  const { cases, ...outcome } = await attackContainment({
    dir: folder.path,
    followSymlinks,
    swaps,
    tries: operations,
    clock: systemClock,
    signal,
  });
  expect(cases.filter(({ escapes }) => escapes > 0)).toEqual([]);
  expect(await folder.entries()).toEqual([]);
  const count = (what: "tries" | "refused"): number => cases.reduce((sum, one) => sum + one[what], 0);
  return { ...outcome, done: count("tries") - count("refused"), refused: count("refused") };
}
