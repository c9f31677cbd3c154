import { expect, test } from "vitest";
import { attackSwappedParent } from "./swapped-parent.ts";

// Best effort is no promise: what comes out is counted and told, so that nobody takes the one for the other.
for (const followSymlinks of [false, true]) {
  test(`a root that is held by names is attacked, and what escapes is told (links ${followSymlinks ? "followed" : "refused"})`, async () => {
    const outcome = await attackSwappedParent({
      swaps: 100_000,
      operations: 30_000,
      followSymlinks,
      containment: "best_effort",
    });
    for (const { name, tries, refused, escapes } of outcome.cases)
      process.stdout.write(`best_effort, ${name}: ${tries} tries, ${refused} refused, ${escapes} escapes\n`);
    expect(outcome.containment).toBe("best_effort");
    expect(outcome.swaps).toBeGreaterThanOrEqual(100_000);
    expect(outcome.done + outcome.refused).toBeGreaterThanOrEqual(30_000);
    expect(outcome.done).toBeGreaterThan(0);
  });
}
