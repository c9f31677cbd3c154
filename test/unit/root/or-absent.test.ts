import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openTempRoot, p } from "./temp-root.ts";

test("a digest or nothing: a file that is gone is written anew, another one is never replaced", async () => {
  const seen: (() => void)[] = [];
  await using temp = await openTempRoot(() => undefined, {
    hooks: {
      afterResolve: ({ operation }) => {
        if (operation === "commit") seen.shift()?.();
      },
    },
  });
  const file = join(temp.dir, "file");
  const precondition = { kind: "match", digest: digestOf("known"), orAbsent: true } as const;
  const write = async (): Promise<void> => {
    await using staged = await temp.root.stageWrite(p("file"), { precondition });
    await staged.write(Buffer.from("new"));
    await staged.commit({ precondition });
  };
  await write();
  expect(readFileSync(file, "utf8")).toBe("new");
  writeFileSync(file, "known");
  await write();
  expect(readFileSync(file, "utf8")).toBe("new");
  // By now it is another one, whether it stood there all the time or came after the comparison.
  expect((await faultOf(write)).code).toBe("CONFLICT");
  rmSync(file);
  seen.push(() => writeFileSync(file, "came meanwhile"));
  expect((await faultOf(write)).code).toBe("CONFLICT");
  expect(readFileSync(file, "utf8")).toBe("came meanwhile");
});
