import { mkdir, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { createJoinSecret, formatJoinCode } from "../../shared/identity/join-code.ts";
import { parsePin } from "../../shared/identity/pin.ts";
import { sourceProgramFile } from "../support/program-file.ts";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

// Each of these starts several programs: the machine may be busy with other tests.
const patience = { timeout: 120_000 };

test("help stands on every level, with an example, and exits 0", patience, async () => {
  await using home = await makeTempFolder();
  for (const [args, example] of [
    [[], "fairlead up"],
    [["--help"], "fairlead up"],
    [["nodes", "--help"], "fairlead nodes ls"],
    [["help", "nodes", "ls"], "fairlead nodes ls --selector env=prod"],
    [["node", "--help"], "fairlead node join CODE"],
    [["node", "workspace", "add", "--help"], "fairlead node workspace add app ./app"],
  ] as const) {
    const { exitCode, stdout, stderr } = await runCli(args, { home: home.path });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toContain(`Example:\n  ${example}`);
  }
});

test("an unknown word or option exits 2 and names the nearest", patience, async () => {
  await using home = await makeTempFolder();
  for (const [args, hint] of [
    [["nodse"], "nodes"],
    [["nodes", "lss"], "ls"],
    [["nodes", "ls", "--selectr", "a=b"], "--selector"],
    [["node", "jion", "x"], "join"],
    [["nodes"], "fairlead nodes --help"],
    [["node", "workspace"], "fairlead node workspace --help"],
    [["nodes", "show"], "fairlead nodes show --help"],
    [["nodes", "ls", "--state", "asleep"], "online"],
    [["tools", "call", "x", "--args", "[1]"], "--args"],
    [["files", "ls", "a:/b", "--deadline", "0s"], "90s"],
  ] as const) {
    const { exitCode, stdout, stderr } = await runCli(args, { home: home.path });
    expect({ args, exitCode, stdout }).toEqual({ args, exitCode: 2, stdout: "" });
    expect(stderr).toMatch(/^error: .* \(INVALID_ARGUMENT\)\nhint: /);
    expect(stderr).toContain(hint);
  }
  for (const args of [["nodse"], ["nodes"], ["nodes", "ls", "--state", "asleep"]]) {
    const { exitCode, json, stderr } = await runCli([...args, "--json"], { home: home.path });
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: "" });
    expect(json).toMatchObject({ error: { code: "INVALID_ARGUMENT", retryable: false } });
  }
});

test(
  "without a gateway every command of an administrator exits 5 and says how to start one",
  patience,
  async () => {
    await using home = await makeTempFolder();
    for (const args of [["nodes", "ls"], ["invite"], ["tools", "ls"], ["gateway", "status"]]) {
      const { exitCode, stderr } = await runCli(args, { home: home.path });
      expect(exitCode).toBe(5);
      expect(stderr).toMatch(/ \(GATEWAY_UNREACHABLE\)\nhint: fairlead gateway run\n$/);
    }
    expect(await home.entries()).toEqual([]);
  },
);

test("a remote gateway whose pin is not known is refused before anything is sent", patience, async () => {
  await using home = await makeTempFolder();
  const env = { FAIRLEAD_GATEWAY: "https://gateway.example", FAIRLEAD_TOKEN: "secret" };
  const { exitCode, stderr } = await runCli(["nodes", "ls"], { home: home.path, env });
  expect(exitCode).toBe(2);
  expect(stderr).toContain("(INVALID_ARGUMENT)");
  expect(stderr).not.toContain("secret");
});

test("neither side loads the other", patience, async () => {
  await using home = await makeTempFolder();
  const loader = home.join("trace.mjs");
  // Every module that is loaded is named on standard error.
  await writeFile(
    loader,
    `import { registerHooks } from "node:module";
     registerHooks({ load: (url, context, next) => (process.stderr.write("loaded " + url + "\\n"), next(url, context)) });`,
  );
  const options = { home: home.path, nodeArgs: ["--import", loader], entry: sourceProgramFile };
  const node = await runCli(["node", "status"], options);
  expect(node.stderr).toContain("/node-agent/cli/");
  expect(node.stderr).not.toContain("/gateway/");
  const gateway = await runCli(["nodes", "ls"], options);
  expect(gateway.stderr).toContain("/gateway/cli/");
  expect(gateway.stderr).not.toContain("/node-agent/");
  const help = await runCli(["--help"], options);
  expect(help.stderr.match(/^loaded file:.*\/(gateway|node-agent)\//gm)).toHaveLength(2);
});

proves("pairing.no-identity", "an agent in a home without identity says how to join", patience, async () => {
  await using home = await makeTempFolder();
  const { exitCode, stderr } = await runCli(["node", "run"], { home: home.path });
  expect(exitCode).toBe(4);
  expect(stderr).toMatch(/^error: .* \(NOT_FOUND\)\nhint: fairlead node join CODE\n$/m);
});

proves(
  "pairing.code-damaged",
  "a code with a slip in it is refused before anything is dialled",
  patience,
  async () => {
    await using home = await makeTempFolder();
    let connections = 0;
    await using server = createServer(() => void (connections += 1)).listen(0, "127.0.0.1");
    await expect.poll(() => server.listening).toBe(true);
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const pin = parsePin(`sha256:${"ab".repeat(32)}`);
    const code = formatJoinCode({
      purpose: "node",
      addresses: [`127.0.0.1:${port}`],
      pin,
      secret: createJoinSecret(),
    });
    const middle = Math.floor(code.length / 2);
    const other = code[middle] === "A" ? "B" : "A";
    for (const damaged of [
      code.slice(0, middle) + other + code.slice(middle + 1),
      code.slice(0, middle) + code.slice(middle + 1),
      code.slice(0, middle) + other + code.slice(middle),
      code.slice(0, -1),
      `${code}A`,
      code.slice(1),
    ]) {
      const { exitCode, json } = await runCli(["node", "join", damaged, "--json"], { home: home.path });
      expect(exitCode).toBe(2);
      expect(json).toMatchObject({ error: { code: "INVALID_ARGUMENT", details: { field: "code" } } });
    }
    expect(connections).toBe(0);
  },
);

test("a folder is exported only when it may be, and each refusal has its status", patience, async () => {
  await using home = await makeTempFolder();
  await using place = await makeTempFolder();
  await mkdir(place.join("my app"));
  await symlink(place.join("my app"), place.join("link"));
  await writeFile(place.join("file"), "");
  await mkdir(home.join("node/inner"), { recursive: true });
  const add = async (name: string, dir: string): Promise<unknown> => {
    const { exitCode, json } = await runCli(["node", "workspace", "add", name, dir, "--json"], {
      home: home.path,
    });
    return { exitCode, json };
  };
  const refused = (exitCode: number, code: string): unknown => ({
    exitCode,
    json: { error: expect.objectContaining({ code }) },
  });
  expect(await add("app", place.join("my app"))).toMatchObject({ exitCode: 0 });
  expect(await add("linked", place.join("link"))).toMatchObject({ exitCode: 0 });
  expect(await add("app", place.join("my app"))).toEqual(refused(6, "ALREADY_EXISTS"));
  expect(await add("whole", "/")).toEqual(refused(2, "INVALID_ARGUMENT"));
  expect(await add("none", place.join("missing"))).toEqual(refused(4, "NOT_FOUND"));
  expect(await add("file", place.join("file"))).toEqual(refused(1, "NOT_A_DIRECTORY"));
  expect(await add("home", home.path)).toEqual(refused(3, "POLICY_DENIED"));
  expect(await add("inner", home.join("node/inner"))).toEqual(refused(3, "POLICY_DENIED"));
  expect(await add("a/b", place.path)).toEqual(refused(2, "INVALID_ARGUMENT"));
  const listed = await runCli(["node", "workspace", "ls", "--json"], { home: home.path });
  expect(listed.json).toMatchObject({
    workspaces: [
      { name: "app", dir: place.join("my app"), read: ["**"], write: [] },
      { name: "linked", dir: place.join("link") },
    ],
  });
  expect((await stat(home.join("node"))).mode & 0o777).toBe(0o700);
  expect((await runCli(["node", "workspace", "rm", "app"], { home: home.path })).exitCode).toBe(0);
  expect((await runCli(["node", "workspace", "rm", "app"], { home: home.path })).exitCode).toBe(4);
});

test("folders that are exported at the same moment are all exported", patience, async () => {
  await using home = await makeTempFolder();
  await using place = await makeTempWorkspace({ "a/": "", "b/": "", "c/": "", "d/": "" });
  const names = ["a", "b", "c", "d"];
  const added = await Promise.all(
    names.map((name) => runCli(["node", "workspace", "add", name, place.join(name)], { home: home.path })),
  );
  expect(added.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0, 0]);
  const { json } = await runCli(["node", "workspace", "ls", "--json"], { home: home.path });
  const { workspaces } = json as { readonly workspaces: readonly { readonly name: string }[] };
  expect(workspaces.map(({ name }) => name).toSorted()).toEqual(names);
  expect((await stat(home.join("node/config.yaml.lock"))).mode & 0o777).toBe(0o600);
});

test("a configuration with mistakes is told by file and line, and exits 1", patience, async () => {
  await using home = await makeTempFolder();
  await mkdir(home.join("node"), { recursive: true });
  await writeFile(home.join("node/config.yaml"), "exec:\n  mod: full\n");
  const check = await runCli(["node", "config", "check"], { home: home.path });
  expect(check.exitCode).toBe(1);
  expect(check.stdout).toContain(
    `${home.join("node/config.yaml")}:2: exec.mod is no setting; did you mean mode?`,
  );
  const run = await runCli(["node", "workspace", "ls"], { home: home.path });
  expect(run.exitCode).toBe(2);
  await writeFile(home.join("node/config.yaml"), "exec:\n  mode: ask\n");
  const shown = await runCli(["node", "config", "show", "--json"], { home: home.path });
  expect(shown.json).toMatchObject({
    values: expect.arrayContaining([
      { key: "exec.mode", value: "ask", from: `${home.join("node/config.yaml")}:2` },
      { key: "path", value: expect.any(String), from: "environment PATH" },
      { key: "limits.treeDepth", value: 64, from: "default" },
    ]),
  });
});

test("an old Node gets one clear line", patience, async () => {
  await using home = await makeTempFolder();
  const fake = home.join("old.mjs");
  await writeFile(fake, `Object.defineProperty(process.versions, "node", { value: "20.11.0" });`);
  const { exitCode, stdout, stderr } = await runCli(["--help"], {
    home: home.path,
    nodeArgs: ["--import", fake],
  });
  expect({ exitCode, stdout, stderr }).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: "error: fairlead needs Node 24 or newer; this is 20.11.0\n",
  });
});
