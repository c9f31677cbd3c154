import { afterAll, beforeAll, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { proves } from "../../support/proves.ts";
import {
  again,
  expectArrived,
  makeWay,
  sizeBytes,
  startAndReach,
  startBreakablePair,
  untilUsable,
  type BreakablePair,
} from "./one-way.ts";

const patience = { timeout: 400_000 };

let pair: BreakablePair;

beforeAll(async () => {
  pair = await startBreakablePair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

proves(
  "files.resume-after-restart",
  "what was killed in the middle sends the rest, whichever of the three it was",
  patience,
  async () => {
    for (const way of ["get", "put"] as const) {
      for (const victim of ["command", "gateway", "node"] as const) {
        await using one = await makeWay(pair, way, `restart-${way}-${victim}`);
        await using program = await startAndReach(pair, one, sizeBytes * 0.4);
        if (victim !== "command") await pair[victim].kill("SIGKILL");
        await program.kill("SIGKILL");
        pair.proxy.mend();
        if (victim !== "command") await pair[victim].restart();
        await untilUsable(pair);
        const result = await again(pair, one);
        expect([way, victim, result.digest]).toEqual([way, victim, digestOf(one.content)]);
        expect(result.bytesSent).toBeLessThanOrEqual(sizeBytes * 0.7);
        expect(result.bytesSent + result.bytesReused).toBe(sizeBytes);
        await expectArrived(one);
      }
    }
  },
);
