import { mkdir, readFile, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { startFilesPair } from "./pair.ts";

const count = 400;
const textOf = (at: number): string => `line of file ${at}, as texts are\n`.repeat(300);
const wholeBytes = Array.from({ length: count }, (_, at) => textOf(at).length).reduce((a, b) => a + b, 0);

test(
  "a folder of texts crosses the line in a small part of its bytes, both ways",
  { timeout: 120_000 },
  async () => {
    await using pair = await startFilesPair({ throughProxy: true });
    await using here = await makeTempFolder();
    await mkdir(here.join("from"));
    for (let at = 0; at < count; at += 1) await writeFile(here.join("from", `${at}.txt`), textOf(at));
    const moved = (): number => {
      const { up, down } = pair.proxy?.counts ?? { up: { bytes: 0 }, down: { bytes: 0 } };
      return up.bytes + down.bytes;
    };
    const begun = moved();
    const put = await pair.files(["put", here.join("from"), "devbox:/app/tree", "--json"]);
    expect(put).toMatchObject({ exitCode: 0, json: { files: count, failed: [] } });
    const there = moved();
    expect(there - begun).toBeGreaterThan(0);
    expect(there - begun).toBeLessThan(wholeBytes / 4);
    expect(await readFile(pair.workspace.join("tree/7.txt"), "utf8")).toBe(textOf(7));
    const got = await pair.files(["get", "devbox:/app/tree", here.join("to"), "--json"]);
    expect(got).toMatchObject({ exitCode: 0, json: { files: count, failed: [] } });
    expect(moved() - there).toBeLessThan(wholeBytes / 4);
    expect(await readFile(here.join("to/399.txt"), "utf8")).toBe(textOf(399));
  },
);
