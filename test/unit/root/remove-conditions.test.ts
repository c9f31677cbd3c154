import { existsSync, mkdirSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { openTempRoot, p } from "./temp-root.ts";

test("what is removed is still of its kind, and a link is still that link", async () => {
  await using temp = await openTempRoot((dir) => {
    symlinkSync("a", join(dir, "link"));
    mkdirSync(join(dir, "folder"));
  });
  const other = { code: "CONFLICT" };
  expect(await faultOf(temp.root.remove(p("link"), { ifKind: "link", ifLinkTarget: "b" }))).toMatchObject(
    other,
  );
  expect(await faultOf(temp.root.remove(p("folder"), { ifKind: "link" }))).toMatchObject(other);
  for (const name of ["link", "folder"]) {
    if (name === "link") unlinkSync(join(temp.dir, name));
    else rmdirSync(join(temp.dir, name));
    writeFileSync(join(temp.dir, name), "another");
    const options =
      name === "link" ? ({ ifKind: "link", ifLinkTarget: "a" } as const) : ({ ifKind: "folder" } as const);
    expect(await faultOf(temp.root.remove(p(name), options))).toMatchObject(other);
    expect(existsSync(join(temp.dir, name))).toBe(true);
  }
  unlinkSync(join(temp.dir, "link"));
  symlinkSync("a", join(temp.dir, "link"));
  expect(await temp.root.remove(p("link"), { ifKind: "link", ifLinkTarget: "a" })).toBe(1);
});
