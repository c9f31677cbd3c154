import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { delimiter } from "node:path";
import { expect, test } from "vitest";
import { readMachineFacts } from "../../../node-agent/skills/gate-facts.ts";
import { judgeGates, type MachineFacts } from "../../../shared/skill-file/gates.ts";
import { parseSkillFile } from "../../../shared/skill-file/parse-skill-file.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const nothing: MachineFacts = {
  platform: "linux",
  hasBinary: async () => false,
  hasVariable: () => false,
  isEnabled: () => false,
};

const machine = (has: {
  readonly binaries?: readonly string[];
  readonly variables?: readonly string[];
  readonly settings?: readonly string[];
}): MachineFacts => ({
  platform: "linux",
  hasBinary: async (name) => has.binaries?.includes(name) === true,
  hasVariable: (name) => has.variables?.includes(name) === true,
  isEnabled: (setting) => has.settings?.includes(setting) === true,
});

/** The failed gates of a skill with these lines in its front matter, as `gate: missing names`. */
async function judge(lines: string, facts: MachineFacts): Promise<readonly string[]> {
  const parsed = parseSkillFile(Buffer.from(`---\nname: fmt\ndescription: x\n${lines}\n---\n`), "fmt");
  if (parsed.state !== "ok") throw new Error(JSON.stringify(parsed.diagnostics));
  const failed = await judgeGates(parsed.gates, facts);
  return failed.map(({ gate, missing }) => `${gate}: ${missing.join(" ")}`);
}

const every = "os: [darwin]\nrequires:\n  bins: [a, b]\n  anyBins: [c, d]\n  env: [E, F]\n  config: [g.h, i]";

proves(
  "skills.gate-table",
  "each gate is judged by itself, all that fail are told, and only real programs on the PATH of commands count",
  async () => {
    expect(await judge("", nothing)).toEqual([]);
    expect(await judge(every, nothing)).toEqual([
      "os: darwin",
      "bins: a b",
      "anyBins: c d",
      "env: E F",
      "config: g.h i",
    ]);
    const half = machine({ binaries: ["a", "d"], variables: ["E"], settings: ["i"] });
    expect(await judge(every, half)).toEqual(["os: darwin", "bins: b", "env: F", "config: g.h"]);
    const all = machine({ binaries: ["a", "b", "c"], variables: ["E", "F"], settings: ["g.h", "i"] });
    expect(await judge(every.replace("darwin", "darwin, linux"), all)).toEqual([]);
    // `always` waives all but the system.
    expect(await judge(`always: true\n${every}`, nothing)).toEqual(["os: darwin"]);
    expect(await judge("os: [macos]", { ...nothing, platform: "darwin" })).toEqual([]);
    expect(await judge("os: [windows]", { ...nothing, platform: "win32" })).toEqual([]);

    for (const list of ["bins", "anyBins"]) {
      for (const name of ["bin/fmt", "/bin/fmt", "..\\\\fmt"]) {
        const text = `---\nname: fmt\ndescription: x\nrequires:\n  ${list}: ["${name}"]\n---\n`;
        expect(parseSkillFile(Buffer.from(text), "fmt")).toMatchObject({
          state: "broken",
          diagnostics: [{ field: `requires.${list}`, line: 5 }],
        });
      }
    }

    await using folder = await makeTempFolder();
    await mkdir(folder.join("first/folder"), { recursive: true });
    await mkdir(folder.join("second"));
    await mkdir(folder.join("elsewhere"));
    for (const name of ["first/plain", "second/tool", "second/folder", "elsewhere/outside"])
      await writeFile(folder.join(name), "#!/bin/sh\n");
    for (const name of ["second/tool", "second/folder", "elsewhere/outside"])
      await chmod(folder.join(name), 0o755);
    await symlink("tool", folder.join("second/linked"));
    await symlink("nowhere", folder.join("second/dangling"));
    const configuration = { skills: { on: true, text: "true" } };
    const facts = readMachineFacts({
      environment: { SET: "x", EMPTY: "", PATH: folder.join("elsewhere") },
      path: () => ["", "relative", folder.join("first"), folder.join("second")].join(delimiter),
      configuration: () => configuration,
    });
    const found = ["tool", "linked", "folder", "plain", "dangling", "outside", "absent"];
    expect(await judge(`requires: {bins: [${found.join(", ")}]}`, facts)).toEqual([
      "bins: plain dangling outside absent",
    ]);
    expect(await judge("requires: {env: [SET, EMPTY, UNSET]}", facts)).toEqual(["env: EMPTY UNSET"]);
    const settings = "requires: {config: [skills.on, skills.text, skills, skills.toString, none.at.all]}";
    expect(await judge(settings, facts)).toEqual(["config: skills.text skills skills.toString none.at.all"]);
  },
);

test("gates of files that were made for other programs count, those at the top before them", async () => {
  const vendor = "metadata:\n  openclaw:\n    os: [darwin]\n    requires:\n      bins: [deep]";
  expect(await judge(vendor, nothing)).toEqual(["os: darwin", "bins: deep"]);
  expect(await judge(`os: [linux]\n${vendor}`, nothing)).toEqual(["bins: deep"]);
  const wrong = "---\nname: fmt\ndescription: x\nmetadata: {openclaw: {requires: {bins: git}}}\n---\n";
  expect(parseSkillFile(Buffer.from(wrong), "fmt")).toMatchObject({
    state: "broken",
    diagnostics: [{ field: "metadata.openclaw.requires.bins", hint: expect.stringContaining("bins: [git]") }],
  });
});
