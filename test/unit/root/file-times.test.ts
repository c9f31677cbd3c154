import { mkdtempSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { toSeconds } from "../../../shared/root/linux/file-times.ts";

test("a time set on a file is the same to the microsecond, and a whole second stays one", () => {
  const base = mkdtempSync(join(tmpdir(), "fairlead-times-"));
  const file = join(base, "file");
  const kept = (timeNs: bigint): bigint => {
    const seconds = toSeconds(timeNs);
    utimesSync(file, seconds, seconds);
    return statSync(file, { bigint: true }).mtimeNs;
  };
  try {
    writeFileSync(file, "");
    fc.assert(
      fc.property(fc.bigInt(1n, 4_000_000_000_000_000_000n), (timeNs) => {
        expect(kept(timeNs) / 1000n).toBe(timeNs / 1000n);
      }),
      { numRuns: 3000 },
    );
    for (const seconds of [1n, 1_500_000_000n, 1_700_000_000n])
      expect(kept(seconds * 1_000_000_000n)).toBe(seconds * 1_000_000_000n);
  } finally {
    rmSync(base, { recursive: true });
  }
});
