import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { isFault } from "../../../shared/fault/fault.ts";
import { runCommand } from "../../../shared/process/run-command.ts";

const env = { PATH: process.env["PATH"] ?? "" };
const run = (shell: string, more: Partial<Parameters<typeof runCommand>[1]> = {}) =>
  runCommand({ shell }, { cwd: tmpdir(), env, ...more });

/** Living processes whose command line holds `word`. */
function findByWord(word: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .filter((pid) => {
      try {
        const dead = /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
        return !dead && readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(word);
      } catch {
        return false;
      }
    })
    .map(Number);
}

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "fairlead-run-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe("a command that ends by itself", () => {
  test("reports exit status, both streams and the time", async () => {
    const result = await run("printf out; printf err >&2; exit 3");
    expect(result).toMatchObject({ exitCode: 3, signal: undefined, timedOut: false, unended: [] });
    expect(result.stdout.head.toString()).toBe("out");
    expect(result.stderr.head.toString()).toBe("err");
    expect(result.durationMs).toBeGreaterThanOrEqual(0);
  });

  test("reads what it is sent, else the end of file", async () => {
    expect((await run("cat", { stdin: "héllo" })).stdout.head.toString()).toBe("héllo");
    expect((await run("cat")).stdout.totalBytes).toBe(0);
  });

  test("takes its arguments as they are", async () => {
    const result = await runCommand({ argv: ["printf", "%s|", "a b", "$HOME", "*"] }, { cwd: tmpdir(), env });
    expect(result.stdout.head.toString()).toBe("a b|$HOME|*|");
  });

  test("inherits nothing", async () => {
    const result = await run("env | sort | cut -d= -f1");
    const names = result.stdout.head.toString().trim().split("\n");
    expect(names.filter((name) => !["PWD", "SHLVL", "_", "OLDPWD"].includes(name))).toEqual([
      "FAIRLEAD_COMMAND",
      "PATH",
    ]);
  });

  test("names the signal that ended it", async () => {
    expect(await run("kill -KILL $$")).toMatchObject({
      exitCode: undefined,
      signal: "SIGKILL",
      timedOut: false,
    });
  });

  test("does not exist: NOT_FOUND; may not be run: TOOL_FAILED", async () => {
    const missing = runCommand({ argv: ["no-such-program-here"] }, { cwd: tmpdir(), env });
    await expect(missing).rejects.toSatisfy((error) => isFault(error, "NOT_FOUND"));
    const folder = runCommand({ argv: [tmpdir()] }, { cwd: tmpdir(), env });
    await expect(folder).rejects.toSatisfy((error) => isFault(error, "TOOL_FAILED"));
  });

  test("is not waited for beyond its end when a child of it holds the pipe", async () => {
    const word = `3${Date.now()}`;
    const result = await run(`sleep ${word} & printf done`);
    expect(result.stdout.head.toString()).toBe("done");
    expect(result.durationMs).toBeLessThan(3_000);
    expect(findByWord(word)).toEqual([]);
  });
});

describe("its output", () => {
  test("is kept at both ends, byte for byte, and counted", async () => {
    const folder = await makeFolder();
    const result = await run(`head -c 700000 /dev/urandom | tee ${folder}/all`);
    const all = await readFile(join(folder, "all"));
    expect(result.stdout).toMatchObject({ totalBytes: 700_000, truncated: true });
    expect(result.stdout.head.equals(all.subarray(0, 65_536))).toBe(true);
    expect(result.stdout.tail.equals(all.subarray(700_000 - 196_608))).toBe(true);
  });

  test("is kept whole up to the limit", async () => {
    const result = await run("head -c 262144 /dev/zero | tr '\\0' x");
    expect(result.stdout).toMatchObject({ totalBytes: 262_144, truncated: false });
    expect(result.stdout.head.byteLength).toBe(262_144);
  });

  test("comes while the command runs, the streams apart", async () => {
    const seen: string[] = [];
    const first = Promise.withResolvers<void>();
    const folder = await makeFolder();
    const running = run(`echo one; while [ ! -e ${folder}/go ]; do sleep 0.02; done; echo two >&2`, {
      onOutput: (stream, chunk) => {
        seen.push(`${stream}:${Buffer.from(chunk).toString().trim()}`);
        first.resolve();
      },
    });
    await first.promise;
    expect(seen).toEqual(["stdout:one"]);
    await run(`touch ${folder}/go`);
    await running;
    expect(seen).toEqual(["stdout:one", "stderr:two"]);
  });
});

describe("a command that is ended", () => {
  const stubborn = (word: string): string =>
    `trap '' TERM; (trap '' TERM; sleep ${word}) & ` +
    `(setsid sh -c "trap '' TERM; sleep ${word}" >/dev/null 2>&1 &) ; echo up; while :; do sleep 0.05; done`;

  test("by time-out: with everything it started, also what ignores SIGTERM or left its session", async () => {
    const word = `4${Date.now()}`;
    const result = await run(stubborn(word), { timeoutMs: 400, graceMs: 200 });
    expect(result).toMatchObject({ timedOut: true, exitCode: undefined, signal: "SIGKILL", unended: [] });
    expect(result.stdout.head.toString()).toBe("up\n");
    expect(result.durationMs).toBeLessThan(2_000);
    expect(findByWord(word)).toEqual([]);
  });

  test("by time-out: also what dropped the environment and left the session, when its parent is the first to go", async () => {
    const word = `8${Date.now()}`;
    const result = await run(`env -i setsid sleep ${word} & echo up; wait`, { timeoutMs: 400, graceMs: 200 });
    expect(result).toMatchObject({ timedOut: true, unended: [] });
    expect(findByWord(word)).toEqual([]);
  });

  test("by its signal: rejects with the signal's reason when nothing of it is left", async () => {
    const word = `5${Date.now()}`;
    const controller = new AbortController();
    const reason = { any: "type" };
    const running = run(stubborn(word), {
      signal: controller.signal,
      graceMs: 100,
      onOutput: () => controller.abort(reason),
    });
    await expect(running).rejects.toBe(reason);
    expect(findByWord(word)).toEqual([]);
  });

  test("before it began: never starts", async () => {
    const folder = await makeFolder();
    await expect(run(`touch ${folder}/started`, { signal: AbortSignal.abort("no") })).rejects.toBe("no");
    expect(readdirSync(folder)).toEqual([]);
  });

  test("when the taker of its output fails", async () => {
    const word = `6${Date.now()}`;
    const running = run(`echo x; sleep ${word}`, {
      onOutput: () => {
        throw new Error("taker left");
      },
    });
    await expect(running).rejects.toThrow("taker left");
    expect(findByWord(word)).toEqual([]);
  });
});
