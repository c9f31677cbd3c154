import { fork } from "node:child_process";
import { once } from "node:events";
import { chmod, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { writeWhole } from "../../support/write-whole.ts";

const workspace = "devbox:/app";
const mode = 0o640;
const replacements = 1_000;
const points = 20;
/** With so many chunks, a mode and a time a replacement takes 20 steps. */
const chunks = 5;
let here: TempFolder;
let pair: FilesPair;

beforeAll(async () => {
  here = await makeTempFolder();
  const killer = pathToFileURL(join(import.meta.dirname, "../../fixtures/programs/kill-at-step.mjs"));
  killer.search = encodeURIComponent(here.join("control"));
  pair = await startFilesPair({ nodeArgs: ["--import", killer.href] });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

/** A letter, as often as that letter says: see the reader. */
function letters(round: number): string {
  const letter = String.fromCharCode("a".charCodeAt(0) + (round % 26));
  return letter.repeat(50_000 + letter.charCodeAt(0));
}

async function replaceUnderAReader(file: string): Promise<void> {
  await pair.workspace.write({ "atomic/read": letters(0) });
  await chmod(file, mode);
  const reader = fork(new URL("../../fixtures/root/read-in-loop.ts", import.meta.url), [
    file,
    mode.toString(8),
  ]);
  await once(reader, "message");
  for (let round = 1; round <= replacements; round += 1) {
    await writeWhole(pair.client, { workspace, path: "atomic/read", content: letters(round) });
  }
  reader.send("stop");
  const [said] = (await once(reader, "message")) as [{ reads: number; seen: number; wrong: string[] }];
  expect(said.wrong).toEqual([]);
  expect(said.seen).toBe(26);
  expect(said.reads).toBeGreaterThan(replacements);
  expect(await readFile(file, "utf8")).toBe(letters(replacements));
}

/** A write in chunks, with a time; however it ends. */
async function writeInChunks(content: Buffer): Promise<boolean> {
  const sizeBytes = BigInt(content.length);
  const header = {
    workspace,
    path: "atomic/killed",
    precondition: WritePrecondition.ANY,
    sizeBytes,
    modifiedNs: 1_700_000_000_000_000_000n,
  };
  const messages = async function* () {
    yield { part: { case: "header" as const, value: header } };
    for (let index = 0; index < chunks; index += 1) {
      const size = content.length / chunks;
      const value = content.subarray(index * size, (index + 1) * size);
      yield { part: { case: "chunk" as const, value } };
    }
    yield { part: { case: "trailer" as const, value: { sizeBytes, digest: digestOf(content) } } };
  };
  return await pair.client.write(messages()).then(
    () => true,
    () => false,
  );
}

async function killAt(point: number, file: string): Promise<"old" | "new" | "neither"> {
  const [old, fresh] = ["o", "n"].map((letter) => Buffer.alloc(chunks * 10_000, `${letter}${point}-`));
  if (!old || !fresh) throw new Error("there are two contents");
  await writeFile(file, old);
  await chmod(file, mode);
  await writeFile(here.join("control"), String(point));
  const writing = writeInChunks(fresh);
  expect([point, (await pair.node.ended).signal]).toEqual([point, "SIGKILL"]);
  const found = await readFile(file);
  expect([point, (await stat(file)).mode & 0o777]).toEqual([point, mode]);
  await pair.node.restart();
  await writing;
  const staged = async (): Promise<string[]> =>
    (await readdir(join(file, ".."))).filter((name) => name.startsWith("."));
  await expect.poll(staged, { timeout: 20_000 }).toEqual([]);
  expect([point, (await readFile(file)).equals(found)]).toEqual([point, true]);
  if (found.equals(old)) return "old";
  return found.equals(fresh) ? "new" : "neither";
}

proves(
  "files.write-atomic",
  "a file is whole old or whole new, for who reads it meanwhile and wherever the agent is killed",
  { timeout: 10 * 60_000 },
  async () => {
    await replaceUnderAReader(join(pair.workspace.path, "atomic/read"));
    await rm(join(pair.workspace.path, "atomic/read"));
    await pair.workspace.write({ "atomic/killed": "" });
    const file = join(pair.workspace.path, "atomic/killed");
    const found: string[] = [];
    for (let point = 1; point <= points; point += 1) found.push(await killAt(point, file));
    // All but the last came before its name was given; the last is the only one behind that.
    expect(found).toEqual([...Array.from({ length: points - 1 }, () => "old"), "new"]);
    // There is no step behind these.
    await writeFile(here.join("control"), String(points + 1));
    expect(await writeInChunks(Buffer.alloc(chunks * 10_000, "last"))).toBe(true);
    expect(await here.entries()).toEqual(["control"]);
  },
);
