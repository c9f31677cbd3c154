import { expect } from "vitest";
import { createRedial } from "../../../node-agent/link/redial.ts";
import { proves } from "../../support/proves.ts";

const ceilings = [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000];

proves(
  "link.backoff-full-jitter",
  "the wait is uniform below a ceiling that doubles and starts over after 30 s of life",
  () => {
    for (const share of [0, 0.25, 0.5, 0.999_999]) {
      const redial = createRedial(() => share);
      expect(ceilings.map(() => redial.nextWaitMs())).toEqual(ceilings.map((ceiling) => ceiling * share));
      redial.lived(29_999);
      expect(redial.nextWaitMs()).toBe(30_000 * share);
      redial.lived(30_000);
      expect(redial.nextWaitMs()).toBe(200 * share);
    }
    // With the machine's own randomness the waits spread evenly below the first ceiling.
    const first = Array.from({ length: 10_000 }, () => createRedial().nextWaitMs());
    for (const quarter of [0, 50, 100, 150]) {
      const count = first.filter((wait) => wait >= quarter && wait < quarter + 50).length;
      expect(count).toBeGreaterThan(2200);
      expect(count).toBeLessThan(2800);
    }
  },
);
