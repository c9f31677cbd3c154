import { expect, test } from "vitest";
import { attackSwappedParent } from "./swapped-parent.ts";

test.each([false, true])(
  "half a million swaps of a parent lead nowhere (links followed: %j)",
  async (followSymlinks) => {
    const outcome = await attackSwappedParent(500_000, followSymlinks);
    expect(outcome.swaps).toBeGreaterThanOrEqual(500_000);
    expect(outcome.done).toBeGreaterThan(1000);
  },
);
