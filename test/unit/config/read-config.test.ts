import { readFile, stat, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import {
  gatewayConfigSchema,
  readGatewayConfig,
  resolveGatewaySettings,
} from "../../../gateway/config/gateway-settings.ts";
import { addExports, removeWorkspace } from "../../../node-agent/config/edit-node-config.ts";
import { nodeConfigSchema } from "../../../node-agent/config/node-config.ts";
import { expandFolder, nodeConfigFile, readNodeSettings } from "../../../node-agent/config/node-settings.ts";
import { readEnvironment } from "../../../shared/config/environment.ts";
import { resolveHome } from "../../../shared/config/home.ts";
import { tryReadConfig } from "../../../shared/config/read-config.ts";
import { watchConfig } from "../../../shared/config/watch-config.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const environment = readEnvironment({ PATH: "/bin", HOME: "/home/me" });

test("every mistake of a file is named with file, line, key and remedy", async () => {
  await using folder = await makeTempFolder();
  const file = folder.join("config.yaml");
  await writeFile(
    file,
    [
      "# exports",
      "workspaces:",
      "  - name: app",
      "    dir: /srv/app",
      "    wirte: ['**']",
      "  - name: app",
      "    dir: 5",
      "exec:",
      "  mode: fulll",
    ].join("\n"),
  );
  const reading = await tryReadConfig(file, nodeConfigSchema);
  expect(reading.kind === "problems" && reading.problems).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ file, line: 5, key: "workspaces.0.wirte", hint: "did you mean write?" }),
      expect.objectContaining({ file, line: 7, key: "workspaces.1.dir" }),
      expect.objectContaining({ file, line: 9, key: "exec.mode" }),
    ]),
  );
  await writeFile(file, "workspaces: [a\nexec: {");
  const broken = await tryReadConfig(file, nodeConfigSchema);
  expect(broken.kind === "problems" && broken.problems[0]).toMatchObject({ file, key: "" });
});

test("a name that is used twice is a mistake", async () => {
  await using folder = await makeTempFolder();
  const file = folder.join("config.yaml");
  await writeFile(file, "workspaces:\n  - {name: a, dir: /a}\n  - {name: a, dir: /b}\n");
  const reading = await tryReadConfig(file, nodeConfigSchema);
  expect(reading.kind === "problems" && reading.problems).toMatchObject([
    { line: 3, key: "workspaces.1.name" },
  ]);
});

test("a missing file means defaults: read only, no command, loopback", async () => {
  await using folder = await makeTempFolder();
  const home = resolveHome({ option: folder.path, environment });
  const settings = await readNodeSettings({ home, environment });
  expect(settings).toMatchObject({ workspaces: [], exec: { mode: "off", allow: [] }, path: "/bin" });
  const gateway = resolveGatewaySettings(home.gatewayDir, await readGatewayConfig(home.gatewayDir));
  expect(gateway).toMatchObject({ listen: "127.0.0.1:7443", http: "127.0.0.1:7480", advertise: [] });
});

test("an export is read only unless something may be written", async () => {
  await using folder = await makeTempFolder();
  const home = resolveHome({ option: folder.path, environment });
  const exports = {
    workspaces: [
      { name: "a", dir: "~/a" },
      { name: "b", dir: "b", write: ["**"] },
    ],
  };
  await addExports(nodeConfigFile(home), exports);
  const { workspaces } = await readNodeSettings({ home, environment });
  expect(workspaces).toMatchObject([
    { name: "a", dir: "/home/me/a", read: ["**"], write: [], remove: false, move: false, mkdir: false },
    { name: "b", dir: folder.join("node/b"), write: ["**"], remove: true, move: true, mkdir: true },
  ]);
  expect((await stat(nodeConfigFile(home))).mode & 0o777).toBe(0o600);
});

test("an edit keeps comments, refuses a name in use, and leaves a broken file alone", async () => {
  await using folder = await makeTempFolder();
  const file = folder.join("config.yaml");
  const text =
    "# mine\nworkspaces:\n  - name: app # the app\n    dir: /srv/app\nexec:\n  mode: ask # careful\n";
  await writeFile(file, text);
  await addExports(file, { workspaces: [{ name: "docs", dir: "/srv/docs" }], exec: "full" });
  const added = await readFile(file, "utf8");
  expect(added).toContain("# mine");
  expect(added).toContain("name: app # the app");
  expect(added).toMatch(/name: docs\n {4}dir: \/srv\/docs/);
  expect(added).toContain("mode: full");
  await expect(addExports(file, { workspaces: [{ name: "app", dir: "/x" }] })).rejects.toMatchObject({
    code: "ALREADY_EXISTS",
  });
  await removeWorkspace(file, "docs");
  expect(await readFile(file, "utf8")).toContain("name: app # the app");
  await expect(removeWorkspace(file, "docs")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await writeFile(file, "workspaces: 5\n");
  await expect(addExports(file, { workspaces: [{ name: "x", dir: "/x" }] })).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    details: { field: "workspaces", line: 1 },
  });
  expect(await readFile(file, "utf8")).toBe("workspaces: 5\n");
});

test("settings that contradict each other are refused with field, value and range", async () => {
  await using folder = await makeTempFolder();
  const config = {
    value: { limits: { heartbeatMs: 5_000, deadAfterMs: 5_000 } },
    file: folder.join("c"),
    exists: true,
  };
  const read = { ...config, placeOf: () => undefined };
  expect(() => resolveGatewaySettings(folder.path, read)).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT", details: expect.objectContaining({ limit: 5_000 }) }),
  );
  const open = { ...read, value: {} };
  expect(() => resolveGatewaySettings(folder.path, open, { http: "0.0.0.0:7480" })).toThrow(/loopback/);
  expect(() => resolveGatewaySettings(folder.path, open, { listen: "nowhere" })).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
  expect(gatewayConfigSchema.safeParse({ listen: 7 }).success).toBe(false);
});

test("~ is the user's home, and a relative folder lies beside the file", () => {
  const place = { base: "/etc/fairlead", userHome: "/home/me" };
  expect(expandFolder("~", place)).toBe("/home/me");
  expect(expandFolder("~/x", place)).toBe("/home/me/x");
  expect(expandFolder("~other", place)).toBe("/etc/fairlead/~other");
  expect(expandFolder("x y", place)).toBe("/etc/fairlead/x y");
});

test("the home is the option, then the environment, then the platform's folder", () => {
  expect(resolveHome({ option: "/a", environment: { home: "/b" } }).nodeDir).toBe("/a/node");
  expect(resolveHome({ environment: { home: "/b" } }).gatewayDir).toBe("/b/gateway");
  expect(resolveHome({ environment: { home: undefined } }).dir).toMatch(/fairlead$/);
});

test("a watched file tells of every change, also when it appears and goes", async () => {
  await using folder = await makeTempFolder();
  const file = folder.join("config.yaml");
  const seen: string[] = [];
  const onChange = async (): Promise<void> => {
    seen.push(await readFile(file, "utf8").catch(() => "gone"));
  };
  await using _ = await watchConfig(file, onChange, { intervalMs: 5 });
  await writeFile(file, "one");
  await expect.poll(() => seen.at(-1)).toBe("one");
  await writeFile(file, "two");
  await expect.poll(() => seen.at(-1)).toBe("two");
});
