import { once } from "node:events";
import { mkdir, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { runCli } from "../support/run-cli.ts";
import { type Program, spawnProgram } from "../support/spawn-program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

// Each start is three programs, on a machine that may be busy with other tests.
const patience = { timeout: 120_000 };

interface UpReady {
  readonly link: string;
  readonly mcp: string;
  readonly session: string;
  readonly folder: string;
  readonly snippet: {
    readonly mcpServers: { readonly fairlead: { readonly headers: Record<string, string> } };
  };
}

function startUp(home: string, ...args: readonly string[]): Program {
  // Another gateway that is named for commands is not the one that it starts.
  const env = { FAIRLEAD_GATEWAY: "https://gateway.example" };
  return spawnProgram(["up", ...args, "--port", "0", "--no-open", "--json"], { home, env });
}

async function readyOf(program: Program): Promise<UpReady> {
  const line = await program.waitForLine((text) => text.includes('"event":"ready"'), 60_000);
  return JSON.parse(line) as UpReady;
}

test(
  "one command gives a session on a folder, again after a stop, and takes everything with it",
  patience,
  async () => {
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({ "a.txt": "hello" });
    let first: UpReady;
    {
      await using program = startUp(home.path, workspace.path);
      first = await readyOf(program);
      expect(first).toMatchObject({
        folder: workspace.path,
        mcp: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/),
      });
      const options = { home: home.path };
      expect((await runCli(["files", "cat", "local:/main/a.txt"], options)).stdout).toBe("hello");
      const call = ["tools", "call", "local__exec", "--args", '{"command":["echo","ran"]}'];
      expect((await runCli(call, options)).stdout).toContain("ran");
      const stranger = await fetch(first.mcp, { method: "POST", body: "{}" });
      expect(stranger.status).toBe(401);
      const { headers } = first.snippet.mcpServers.fairlead;
      const known = await fetch(first.mcp, { method: "POST", body: "{}", headers });
      expect(known.status).not.toBe(401);
      await known.body?.cancel();
      await stranger.body?.cancel();
      expect((await stat(home.join("gateway/up.json"))).mode & 0o777).toBe(0o600);
      expect((await program.kill("SIGINT")).exitCode).toBe(130);
    }
    await using again = startUp(home.path, workspace.path);
    const second = await readyOf(again);
    expect(second).toMatchObject({ link: first.link, session: first.session, snippet: { mcpServers: {} } });
    const { headers } = second.snippet.mcpServers.fairlead;
    expect(headers).toEqual(first.snippet.mcpServers.fairlead.headers);
    expect((await again.kill("SIGTERM")).exitCode).toBe(0);
  },
);

test("the node of a killed `up` ends with it", patience, async () => {
  await using home = await makeTempFolder();
  await using workspace = await makeTempWorkspace({ "a.txt": "hello" });
  await using program = startUp(home.path, workspace.path);
  await readyOf(program);
  // Disposing fails when a process of it is left.
  await program.kill("SIGKILL");
});

test("a home inside the folder stays closed", patience, async () => {
  await using workspace = await makeTempWorkspace({ "a.txt": "hello" });
  const home = workspace.join("state");
  await mkdir(home);
  await using program = startUp(home, workspace.path);
  await readyOf(program);
  const open = await runCli(["files", "cat", "local:/main/a.txt"], { home });
  expect(open.exitCode).toBe(0);
  for (const path of ["state/gateway/up.json", "state/gateway/state.db", "state/local/node/config.yaml"]) {
    const closed = await runCli(["files", "cat", `local:/main/${path}`, "--json"], { home });
    expect({ path, exitCode: closed.exitCode }).toEqual({ path, exitCode: 3 });
  }
});

test("a home whose port for the link is taken says which, and what to do about it", patience, async () => {
  await using home = await makeTempFolder();
  await using workspace = await makeTempWorkspace({});
  await using other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await mkdir(home.join("gateway"), { mode: 0o700 });
  const kept = JSON.stringify({ linkAddress: `127.0.0.1:${port}` });
  await writeFile(home.join("gateway/up.json"), kept, { mode: 0o600 });
  const args = ["up", workspace.path, "--port", "0", "--no-open"];
  const refused = await runCli(args, { home: home.path });
  expect(refused.exitCode).toBe(6);
  expect(refused.stderr).toContain(`127.0.0.1:${port}`);
  expect(refused.stderr).toMatch(/hint: end that program: .* --home DIR/);
});

test("wrong folders are refused before anything starts", patience, async () => {
  await using home = await makeTempFolder();
  await writeFile(home.join("file"), "");
  for (const [args, exitCode] of [
    [[home.path], 3],
    [[home.join("missing")], 4],
    [[home.path, "--sample"], 2],
  ] as const) {
    const refused = await runCli(["up", ...args, "--port", "0", "--no-open"], { home: home.path });
    expect(refused.exitCode).toBe(exitCode);
    expect(refused.stderr).toMatch(/^error: /);
  }
  expect(await home.entries()).toEqual(["file"]);
});
