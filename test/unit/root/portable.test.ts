import { describe, expect, test } from "vitest";
import { openAllWith, openTempRoot } from "./temp-root.ts";

// Every behaviour of a root once more, over the door of the platforms whose kernels do not help.
openAllWith("best_effort");

test("a root that is held by names says so", async () => {
  await using temp = await openTempRoot();
  expect(temp.root.containment).toBe("best_effort");
});

describe("held by names", async () => {
  await import("./reading.test.ts");
  await import("./writing.test.ts");
  await import("./changing.test.ts");
  await import("./or-absent.test.ts");
  await import("./parts.test.ts");
  await import("./permissions.test.ts");
  await import("./remove-conditions.test.ts");
  await import("./trusted-target.test.ts");
});
