import { expect, test } from "vitest";
import { attackSwappedParent } from "./swapped-parent.ts";

for (const followSymlinks of [false, true]) {
  test(`a parent that is swapped for a link outside leads nowhere (links ${followSymlinks ? "followed" : "refused"})`, async () => {
    const outcome = await attackSwappedParent({ swaps: 20_000, operations: 2000, followSymlinks });
    expect(outcome).toMatchObject({ containment: "kernel", escapes: 0 });
    expect(outcome.swaps).toBeGreaterThanOrEqual(20_000);
    expect(outcome.done).toBeGreaterThan(100);
    expect(outcome.refused).toBeGreaterThan(0);
  });
}
