import { randomBytes } from "node:crypto";
import { readdir, readFile, readlink } from "node:fs/promises";
import { expect, test } from "vitest";
import { listOf, memberOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 180_000 };
const slowly = { timeout: 60_000, interval: 100 };
const mebi = 1024 * 1024;
const skill = "---\nname: review\ndescription: Reviews a change before it is merged\n---\nRead the change.\n";

/** Everything that a process holds open, by kind: `socket`, `pipe`, or a path. */
async function heldBy(pid: number): Promise<readonly string[]> {
  const names = await readdir(`/proc/${pid}/fd`);
  const targets = names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => ""));
  return (await Promise.all(targets))
    .filter((target) => target !== "")
    .map((target) => target.replace(/:\[\d+\]$/, ""))
    .toSorted();
}

/** The processes that a process started. */
async function childrenOf(pid: number): Promise<readonly string[]> {
  const ids = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).split(" ");
  const lines = ids.filter((id) => id.trim() !== "").map((id) => readFile(`/proc/${id}/cmdline`, "latin1"));
  return (await Promise.all(lines)).toSorted();
}

/** What stands in `after` and not in `before`, as often as it does. */
function added(before: readonly string[], after: readonly string[]): readonly string[] {
  const rest = [...before];
  return after.filter((one) => {
    const at = rest.indexOf(one);
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
}

test.runIf(process.platform === "linux")(
  "work that succeeds, fails, is refused or is broken off leaves no process, file, descriptor or connection",
  patience,
  async () => {
    await using temporary = await makeTempFolder();
    const env = { TMPDIR: temporary.path, XDG_RUNTIME_DIR: temporary.path };
    await using kit = await startGatewayBehindProxy({ env });
    const { gateway, proxy } = kit;
    await using workspace = await makeTempWorkspace({
      "a.txt": "a",
      "big.bin": randomBytes(24 * mebi),
      "skills/review/SKILL.md": skill,
      "MEMORY.md": "# Notes\nThe settle period is five seconds.\n",
    });
    await using local = await makeTempFolder();
    await using node = await startNode({
      gateway,
      profile: "full",
      exec: "full",
      env,
      workspaces: { app: `${workspace.path}:rw` },
    });
    const state = async (): Promise<readonly string[]> => [
      ...(await heldBy(gateway.pid)).map((what) => `gateway holds ${what}`),
      ...(await heldBy(node.pid)).map((what) => `node holds ${what}`),
      ...(await childrenOf(gateway.pid)).map((what) => `gateway runs ${what}`),
      ...(await childrenOf(node.pid)).map((what) => `node runs ${what}`),
      ...Array.from({ length: proxy.counts.open }, () => "connection"),
    ];
    const files = await workspace.entries();

    const round = async (): Promise<void> => {
      const session = await gateway.json(["sessions", "open", "--workspace", "devbox:/app"]);
      const id = String(memberOf(session, "id"));
      const get = ["files", "get", "devbox:/app/big.bin", local.join("got.bin")];
      const put = ["files", "put", local.join("got.bin"), "devbox:/app/put.bin", "--if-match", "any"];
      for (const args of [
        get,
        put,
        ["files", "rm", "devbox:/app/put.bin"],
        ["files", "ls", "devbox:/app", "--recursive"],
        ["files", "cat", "devbox:/app/none"],
        ["memory", "search", "settle period"],
        ["skills", "read", "devbox-review"],
        ["tools", "call", "exec", "--session", id, "--args", '{"command":"sleep 600 & echo done"}'],
        ["tools", "call", "exec", "--session", id, "--args", '{"command":"exit 3"}'],
        ["tools", "call", "read", "--session", id, "--args", '{"path":"../a.txt"}'],
      ]) {
        await gateway.cli([...args, "--json"], { timeoutMs: 60_000 });
      }
      // Broken off by whoever asked, in the middle: of files that are not there yet, so that all of them must travel.
      proxy.limit(4 * mebi);
      for (const args of [
        ["files", "get", "devbox:/app/big.bin", local.join("broken.bin")],
        ["files", "put", local.join("got.bin"), "devbox:/app/broken.bin", "--if-match", "any"],
      ]) {
        const before = proxy.counts;
        await using program = spawnProgram([...args, "--json"], { home: gateway.home, env });
        const moved = (): number =>
          Math.max(proxy.counts.up.bytes - before.up.bytes, proxy.counts.down.bytes - before.down.bytes);
        await expect.poll(moved, slowly).toBeGreaterThan(mebi);
        expect((await program.kill("SIGINT")).exitCode).toBe(130);
      }
      proxy.mend();
      await using waiting = spawnProgram(
        ["tools", "call", "exec", "--session", id, "--args", '{"command":"touch began; sleep 600"}'],
        { home: gateway.home },
      );
      await expect.poll(() => workspace.has("began"), slowly).toBe(true);
      expect((await waiting.kill("SIGINT")).exitCode).toBe(130);
      await workspace.remove("began");
      await gateway.json(["sessions", "close", id]);
    };

    // The first round opens what stays open: parked streams, the bulk connection, workers.
    await round();
    await expect.poll(() => workspace.entries(), slowly).toEqual(files);
    const [before, temporaries] = [await state(), await temporary.entries()];
    expect(before).toContain("connection");
    await round();
    await expect.poll(async () => added(before, await state()), slowly).toEqual([]);
    await expect.poll(() => workspace.entries(), slowly).toEqual(files);
    expect(await local.entries()).toEqual(["got.bin"]);
    expect(added(temporaries, await temporary.entries())).toEqual([]);
    expect(listOf(await gateway.json(["sessions", "ls"]), "sessions")).toEqual([]);
    // Both sides end by themselves: leaving this block fails when a process of theirs is left.
    expect((await node.kill("SIGTERM")).exitCode).toBe(0);
    await expect.poll(() => proxy.counts.open, slowly).toBe(0);
    expect((await gateway.kill("SIGTERM")).exitCode).toBe(0);
    for (const home of [gateway.home, node.home]) {
      const names = await readdir(home, { recursive: true });
      expect(names.filter((name) => /\.sock$|\.tmp|\.part|stage/.test(name))).toEqual([]);
    }
  },
);
