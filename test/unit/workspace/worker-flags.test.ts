import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { workerFlags } from "../../../node-agent/workers/worker-argv.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

/** Which of `files` a process with the flags of a worker for `dirs` may read. */
function readable(dirs: readonly string[], files: readonly string[]): unknown {
  const script = `
    const { readdirSync, readFileSync, statSync } = require("node:fs");
    const can = (path) => {
      try { return statSync(path).isDirectory() ? readdirSync(path) : readFileSync(path), true; }
      catch (error) { return error.code !== "ERR_ACCESS_DENIED" && String(error); }
    };
    console.log(JSON.stringify(process.argv.slice(1).filter((path) => can(path) === true)));`;
  const args = [...workerFlags(dirs), "-e", script, "--", ...files];
  return JSON.parse(spawnSync(process.execPath, args, { encoding: "utf8" }).stdout);
}

test("a worker reads all of its folders, also where the name of one begins that of another", async () => {
  await using place = await makeTempWorkspace({
    "app/src/f": "1",
    "app2/src/f": "2",
    "app/inner/deep/f": "3",
    "else/f": "4",
  });
  const at = (path: string): string => `${place.path}/${path}`;
  const wanted = ["app", "app/src/f", "app2", "app2/src/f", "app/inner", "app/inner/deep/f"].map(at);
  for (const dirs of [
    ["app", "app2", "app/inner"],
    ["app2", "app/inner", "app"],
  ]) {
    expect(readable(dirs.map(at), [...wanted, place.path, at("else/f")])).toEqual(wanted);
  }
  const one = ["app", "app/src/f", "app/inner", "app/inner/deep/f"].map(at);
  expect(readable([at("app/")], [...wanted, at("else/f")])).toEqual(one);
});
