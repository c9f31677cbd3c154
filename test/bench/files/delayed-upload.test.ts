import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { uploadPlainly } from "../support/plain-upload.ts";
import { median } from "../support/report.ts";

const mib = 1024 * 1024;
const sizeBytes = 96 * mib;
const oneWayMs = 25;
const rounds = 5;

proves(
  "files.bench-delayed-upload",
  "over a line of 50 ms a file is stored twenty times as fast as with the library's own window",
  { timeout: 900_000 },
  async () => {
    await using pair = await startFilesPair({ throughProxy: true });
    await using here = await makeTempFolder();
    await writeFile(here.join("large"), randomBytes(sizeBytes));
    pair.proxy?.delay(oneWayMs);
    const [puts, plain]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      const put = await pair.files(["put", here.join("large"), "devbox:/app/large", "--json"]);
      expect(put.exitCode).toBe(0);
      const { durationMs } = put.json as { readonly durationMs: number };
      puts.push(sizeBytes / mib / (durationMs / 1000));
      await rm(join(pair.workspace.path, "large"));
      plain.push(await uploadPlainly(oneWayMs));
    }
    const [ours, theirs] = [median(puts), median(plain)];
    console.log(
      `files put at 50 ms: ${ours.toFixed(1)} MiB/s, the library's window ${theirs.toFixed(2)} MiB/s, ${(ours / theirs).toFixed(0)} ×`,
    );
    expect(ours / theirs).toBeGreaterThanOrEqual(20);
  },
);
