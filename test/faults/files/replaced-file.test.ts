import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openTempRoot, p, readAll } from "../../unit/root/temp-root.ts";

const replaceFile = fileURLToPath(new URL("../../fixtures/root/replace-file.ts", import.meta.url));

/** A process that replaces `file` in a loop; disposing ends it. */
async function startReplacing(file: string): Promise<AsyncDisposable> {
  const child = fork(replaceFile, [file]);
  await once(child, "message");
  return {
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}

test("a file that is replaced in a loop is there at every look, and is read whole", async () => {
  await using temp = await openTempRoot((dir) => writeFileSync(join(dir, "file"), "whole 0\n"));
  const { root } = temp;
  await using replacing = await startReplacing(join(temp.dir, "file"));
  void replacing;
  for (let round = 0; round < 20_000; round += 1) {
    const text = root.readSmall(p("file"), { maxBytes: 100 }).content.toString();
    if (!/^whole \d+\n$/.test(text)) expect(text).toBe("a whole line");
    if (round % 10 > 0) continue;
    expect(await readAll(root, "file")).toMatch(/^whole \d+\n$/);
    expect((await root.stat(p("file"))).kind).toBe("file");
  }
  // What is compared with a digest is changed, never missing.
  const expected = digestOf("never there");
  for (let round = 0; round < 300; round += 1) {
    await using staged = await root.stageWrite(p("file"));
    const fault = await faultOf(staged.commit({ precondition: { kind: "match", digest: expected } }));
    expect(fault).toMatchObject({ code: "CONFLICT", details: { actual: expect.stringMatching(/^sha256:/) } });
  }
}, 60_000);
