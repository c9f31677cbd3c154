import { expect } from "vitest";
import { attackContainment, type AttackOutcome } from "../../../node-agent/workspace/attack-containment.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import type { Containment } from "../../../shared/root/root-handle.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** How long an attack goes on: until both numbers are reached. */
export interface Attack {
  readonly swaps: number;
  readonly operations: number;
  readonly followSymlinks: boolean;
  readonly containment?: Containment;
}

/** What came of an attack. */
export interface Attacked extends AttackOutcome {
  /** Tries that did what they were to do, that were refused, and that escaped. */
  readonly done: number;
  readonly refused: number;
  readonly escapes: number;
}

/** Runs the suite of `node doctor --attack` in a folder of its own; fails when anything is left of it. */
export async function attackSwappedParent({
  swaps,
  operations,
  followSymlinks,
  containment,
}: Attack): Promise<Attacked> {
  await using folder = await makeTempFolder();
  const { signal } = new AbortController();
  const outcome = await attackContainment({
    dir: folder.path,
    followSymlinks,
    containment,
    swaps,
    tries: operations,
    clock: systemClock,
    signal,
  });
  expect(await folder.entries()).toEqual([]);
  const count = (what: "tries" | "refused" | "escapes"): number =>
    outcome.cases.reduce((sum, one) => sum + one[what], 0);
  const refused = count("refused");
  return { ...outcome, done: count("tries") - refused, refused, escapes: count("escapes") };
}
