import { execFile } from "node:child_process";
import { cp, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "vitest";
import { sourceFolder } from "../support/program-file.ts";
import { proves } from "../support/proves.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

function run(args: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const options = { env, timeout: 60_000, maxBuffer: 16 * 1024 * 1024 };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, options, (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
}

interface Seen {
  readonly [name: string]: unknown;
  readonly loadedBefore: readonly string[];
  readonly loadedAfter: readonly string[];
}

const unavailable = (reason: string): object => ({
  code: "WORKSPACE_ACCESS_UNAVAILABLE",
  reason,
  isUnavailable: true,
});

proves(
  "files.access-module-alone",
  "a program that knows only the module for plugins has workspaces, documents and memory, and loads nothing of sessions",
  { timeout: 120_000 },
  async () => {
    await using place = await makeTempFolder();
    await using skill = await makeTempWorkspace({
      "SKILL.md": "---\nname: x\ndescription: y\n---\n",
      "run.sh": "echo\n",
      "node_modules/left/out.js": "",
    });
    const modules = place.join("node_modules");
    await mkdir(modules);
    await symlink(sourceFolder, join(modules, "fairlead"));
    await cp(join(sourceFolder, "test/fixtures/plugin-sdk/uses-workspaces.mjs"), place.join("plugin.mjs"));
    // Another installed copy, with classes of its own.
    const copy = place.join("copy");
    for (const folder of ["gateway/plugin-sdk", "gateway/files", "gateway/memory", "shared"])
      await cp(join(sourceFolder, folder), join(copy, folder), { recursive: true });
    await cp(join(sourceFolder, "package.json"), join(copy, "package.json"));
    await symlink(join(sourceFolder, "node_modules"), join(copy, "node_modules"));
    const second = pathToFileURL(join(copy, "gateway/plugin-sdk/agent-workspace-runtime.ts")).href;

    const stdout = await run(["--conditions=fairlead-source", place.join("plugin.mjs")], {
      PATH: process.env["PATH"],
      SECOND_COPY: second,
      SKILL: skill.path,
    });
    const { loadedBefore, loadedAfter, ...seen } = JSON.parse(stdout) as Seen;
    expect(seen).toEqual({
      own: true,
      declared: unavailable("not_started"),
      twice: { code: "ALREADY_EXISTS", isUnavailable: false },
      read: "first",
      value: "a host",
      committedBeforeTheEnd: unavailable("stopped"),
      kept: unavailable("stopped"),
      stopped: unavailable("stopped"),
      keptAfterAnother: unavailable("stopped"),
      another: "first",
      line: "one",
      stream: unavailable("node_offline"),
      documents: [true, false, 1],
      memory: ["/workspaces/app/memory/a.md"],
      foreign: [true, true, true],
      others: [false, false],
      bundle: ["SKILL.md", "run.sh"],
    });
    const ofThisCopy = (urls: readonly string[]): readonly string[] => {
      const base = pathToFileURL(`${sourceFolder}/`).href;
      return urls.filter((url) => url.startsWith(base)).map((url) => url.slice(base.length));
    };
    const before = ofThisCopy(loadedBefore);
    expect(before).toContain("gateway/plugin-sdk/agent-workspace-runtime.ts");
    const own = before.filter((path) => !path.startsWith("node_modules/"));
    const allowed =
      /^(?:package\.json|gateway\/(?:plugin-sdk|files|memory)\/|shared\/(?!rpc|gen|skill-file|root))/u;
    expect(own.filter((path) => !allowed.test(path))).toEqual([]);
    expect(own.filter((path) => path.startsWith("gateway/")).toSorted()).toEqual([
      "gateway/files/agent-workspaces.ts",
      "gateway/files/bootstrap-documents.ts",
      "gateway/files/unavailable.ts",
      "gateway/memory/memory-client.ts",
      "gateway/plugin-sdk/agent-workspace-runtime.ts",
    ]);
    expect(before.join("\n")).not.toMatch(/grpc|modelcontextprotocol|skill-files/u);
    expect(ofThisCopy(loadedAfter)).toContain("shared/skill-file/skill-files.ts");
  },
);
