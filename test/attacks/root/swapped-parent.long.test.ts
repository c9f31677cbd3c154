import { expect, test } from "vitest";
import { proves } from "../../support/proves.ts";
import { attackSwappedParent } from "./swapped-parent.ts";

proves(
  "files.race-swapped-parent",
  "reads, writes and recursive removals under a parent that is flipped all the time never touch the outside",
  async () => {
    const outcome = await attackSwappedParent({ swaps: 100_000, operations: 30_000, followSymlinks: false });
    expect(outcome).toMatchObject({ containment: "kernel", escapes: 0 });
    expect(outcome.swaps).toBeGreaterThanOrEqual(100_000);
    expect(outcome.done + outcome.refused).toBeGreaterThanOrEqual(30_000);
    expect(outcome.done).toBeGreaterThan(1000);
  },
);

test("a million swaps of a parent lead nowhere where links are followed either", async () => {
  const outcome = await attackSwappedParent({ swaps: 1_000_000, operations: 30_000, followSymlinks: true });
  expect(outcome).toMatchObject({ containment: "kernel", escapes: 0 });
  expect(outcome.swaps).toBeGreaterThanOrEqual(1_000_000);
  expect(outcome.done).toBeGreaterThan(1000);
});
