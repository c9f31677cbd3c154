import { randomBytes } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { median } from "../support/report.ts";
import { digestTree } from "./trees.ts";

const fileCount = 5_000;
const fileBytes = 1024;
const oneWayMs = 10;
const rounds = 3;

proves(
  "files.bench-small-files",
  "over a line of 20 ms a tree of small files comes in a fifth of the time that its files take one by one",
  { timeout: 900_000 },
  async () => {
    await using pair = await startFilesPair({ throughProxy: true });
    await using here = await makeTempFolder();
    const source = join(pair.workspace.path, "tree");
    const paths: string[] = [];
    for (let at = 0; at < fileCount; at += 1) {
      const folder = `d${Math.floor(at / 100)}`;
      if (at % 100 === 0) await mkdir(join(source, folder), { recursive: true });
      await writeFile(join(source, folder, `f${at}`), randomBytes(fileBytes));
      paths.push(`tree/${folder}/f${at}`);
    }
    pair.proxy?.delay(oneWayMs);
    const trees: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const startedAt = performance.now();
      const { exitCode } = await pair.files(["get", "devbox:/app/tree", here.join("tree")]);
      trees.push(performance.now() - startedAt);
      expect(exitCode).toBe(0);
      expect(await digestTree(here.join("tree"))).toBe(await digestTree(source));
      await rm(here.join("tree"), { recursive: true });
    }
    const startedAt = performance.now();
    let readBytes = 0;
    for (const path of paths) {
      // With its length told, a read is one question and one answer.
      const request = { workspace: "devbox:/app", path, length: BigInt(fileBytes) };
      for await (const { part } of pair.client.read(request))
        if (part.case === "chunk") readBytes += part.value.byteLength;
    }
    const [tree, reads] = [median(trees), performance.now() - startedAt];
    expect(readBytes).toBe(fileCount * fileBytes);
    console.log(
      `${fileCount} files of ${fileBytes} bytes at 20 ms: as a tree ${tree.toFixed(0)} ms (program's start included), one by one ${reads.toFixed(0)} ms, ${(reads / tree).toFixed(1)} ×`,
    );
    expect(tree / reads).toBeLessThanOrEqual(1 / 5);
  },
);
