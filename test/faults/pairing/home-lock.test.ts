import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openStore } from "../../../gateway/store/store.ts";
import { lockHome } from "../../../shared/process/home-lock.ts";
import { faultOf } from "../../support/fault-of.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const fixture = fileURLToPath(new URL("../../fixtures/pairing/hold-home.ts", import.meta.url));

test("a home that a process holds is refused by name, and given at once when that process was killed", async () => {
  await using home = await makeTempFolder();
  const holder = fork(fixture, [home.path], { execArgv: [] });
  expect(await once(holder, "message")).toEqual(["held", undefined]);
  const held = { code: "CONFLICT", details: { pid: holder.pid, program: "hold-home" } };
  expect(await faultOf((async () => lockHome(home.path, { program: "test" }))())).toMatchObject(held);
  expect(await faultOf(openStore({ dir: home.path }))).toMatchObject(held);
  holder.kill("SIGKILL");
  await once(holder, "exit");
  // As if the id had been given to another program: this one.
  const note = JSON.parse(readFileSync(home.join("lock.json"), "utf8")) as object;
  writeFileSync(home.join("lock.json"), JSON.stringify({ ...note, pid: process.pid }));
  using lock = lockHome(home.path, { program: "test" });
  expect(lock.dir).toBe(home.path);
});

test(
  "a home is held once within a process too, and of five that ask at once one gets it",
  { timeout: 90_000 },
  async () => {
    await using home = await makeTempFolder();
    {
      using _ = lockHome(home.path, { program: "first" });
      expect(() => lockHome(home.path, { program: "second" })).toThrow(
        expect.objectContaining({
          code: "CONFLICT",
          details: expect.objectContaining({ pid: process.pid, program: "first" }),
        }),
      );
    }
    const askers = Array.from({ length: 5 }, () => fork(fixture, [home.path], { execArgv: [] }));
    const ended = askers.map((asker) => once(asker, "exit"));
    const answers = await Promise.all(
      askers.map(async (asker) => (await once(asker, "message"))[0] as string),
    );
    expect(answers.toSorted()).toEqual([...Array.from({ length: 4 }, () => "CONFLICT"), "held"]);
    for (const asker of askers) asker.kill("SIGKILL");
    await Promise.all(ended);
  },
);

test("a lock whose note is damaged still holds", async () => {
  await using home = await makeTempFolder();
  using _ = lockHome(home.path, { program: "first" });
  for (const note of ["", "{}", "[1]", "null"]) {
    writeFileSync(home.join("lock.json"), note);
    expect(() => lockHome(home.path, { program: "second" })).toThrow(
      expect.objectContaining({ code: "CONFLICT" }),
    );
  }
});
