import { spawn } from "node:child_process";
import { describe, expect, test } from "vitest";
import { resolveWorkspaceWorkerArgv } from "../../node-agent/workers/worker-argv.ts";
import { digestOf } from "../../shared/content/digest.ts";
import { proves } from "../support/proves.ts";
import { runWorker, startWorkerWatch } from "../support/run-worker.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

const timeout = 60_000;

proves(
  "memory.worker-one-exchange",
  "one request on standard input gives one document on standard output, and log text goes elsewhere",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "one\ntwo\n",
      "memory/a.md": "a\n",
      "notes.md": "no\n",
    });
    const list = await runWorker(["--files", workspace.path], '{"operation":"list"}');
    expect(list).toMatchObject({ exitCode: 0, stderr: "" });
    expect(list.stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(list.stdout)).toEqual({
      result: {
        files: [
          { path: "MEMORY.md", sizeBytes: 8, modified: expect.any(String), digest: digestOf("one\ntwo\n") },
          { path: "memory/a.md", sizeBytes: 2, modified: expect.any(String), digest: digestOf("a\n") },
        ],
        skipped: [],
      },
    });
    const read = await runWorker(
      ["--files", workspace.path],
      '{"operation":"read","path":"MEMORY.md","from":2}\n',
    );
    expect(JSON.parse(read.stdout)).toMatchObject({
      result: { status: "ok", text: "two\n", firstLine: 2, lastLine: 2, totalLines: 2 },
    });
    const inspect = await runWorker(
      ["--files", workspace.path],
      '{"operation":"inspect","paths":["memory/a.md","memory/gone.md"]}',
    );
    expect(JSON.parse(inspect.stdout)).toMatchObject({ result: { files: [{ path: "memory/a.md" }, null] } });
    const denied = await runWorker(["--files", workspace.path], '{"operation":"read","path":"notes.md"}');
    expect(denied.stderr).toBe("");
    expect(JSON.parse(denied.stdout)).toEqual({
      error: { code: "POLICY_DENIED", message: expect.any(String), details: expect.any(Object) },
    });
  },
);

proves(
  "memory.worker-watch-lines",
  "a watch says available with epoch and cursor after its scan, then each edit, and nothing else",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\n" });
    await using watch = startWorkerWatch(workspace.path);
    watch.send('{"operation":"watch"}\n');
    await expect.poll(() => watch.lines(), { timeout: 20_000 }).toHaveLength(1);
    const [first] = watch.lines();
    expect(first).toEqual({
      event: "available",
      epoch: expect.stringMatching(/\S/),
      cursor: expect.stringMatching(/\S/),
    });
    await workspace.write({ "memory/deep/new.md": "new\n", "notes.md": "unseen\n" });
    await expect
      .poll(() => watch.lines().slice(1), { timeout: 20_000 })
      .toMatchObject([{ event: "changed", path: "memory/deep/new.md", kind: "created" }]);
    await workspace.write({ "MEMORY.md": "two\n" });
    await expect
      .poll(() => watch.lines().slice(2), { timeout: 20_000 })
      .toMatchObject([{ event: "changed", path: "MEMORY.md", kind: "changed" }]);
    await workspace.remove("memory");
    await expect
      .poll(() => watch.lines().slice(3), { timeout: 20_000 })
      .toMatchObject([{ event: "changed", path: "memory/deep/new.md", kind: "removed" }]);
    expect(watch.lines().every((line) => line["event"] !== "unavailable")).toBe(true);
    expect(watch.stderr()).toBe("");
    watch.end();
    expect(await watch.ended).toBe(0);
  },
);

proves(
  "memory.worker-bad-start",
  "a wrong start ends with one line on standard error, and nothing else",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\n" });
    const starts = [
      [],
      ["--unknown", workspace.path],
      ["--files"],
      ["--files", workspace.join("missing")],
      ["--files", workspace.path, "more"],
      ["--watch-files"],
      ["--serve", workspace.path],
    ];
    for (const argv of starts) {
      const result = await runWorker(argv, '{"operation":"list"}');
      expect(result.exitCode, argv.join(" ")).toBeGreaterThan(0);
      expect(result.stdout, argv.join(" ")).toBe("");
      expect(result.stderr, argv.join(" ")).toMatch(/^memory worker: [^\n]+\n$/);
    }
  },
);

proves(
  "memory.worker-bad-request",
  "a malformed request names its field or limit, and touches no file",
  { timeout: 120_000 },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\n" });
    const requests: readonly (readonly [string, string, Record<string, unknown>])[] = [
      ["{", "INVALID_ARGUMENT", { field: "request" }],
      ["[]", "INVALID_ARGUMENT", { field: "request" }],
      ["", "INVALID_ARGUMENT", { field: "request" }],
      ['{"operation":"write"}', "INVALID_ARGUMENT", { field: "operation" }],
      ["{}", "INVALID_ARGUMENT", { field: "operation" }],
      ['{"operation":"list","deep":true}', "INVALID_ARGUMENT", { field: "deep" }],
      ['{"operation":"read","path":7}', "INVALID_ARGUMENT", { field: "path" }],
      ['{"operation":"read","path":"MEMORY.md","from":0}', "INVALID_ARGUMENT", { field: "from" }],
      ['{"operation":"inspect","paths":"MEMORY.md"}', "INVALID_ARGUMENT", { field: "paths" }],
      [
        `{"operation":"read","path":"${"x".repeat(4 * 1024 * 1024)}"}`,
        "TOO_LARGE",
        { limit: 4 * 1024 * 1024 },
      ],
    ];
    for (const [request, code, details] of requests) {
      const { stdout } = await runWorker(["--files", workspace.path], request);
      expect(JSON.parse(stdout), request.slice(0, 60)).toMatchObject({ error: { code, details } });
    }
    await using watch = startWorkerWatch(workspace.path);
    watch.send('{"operation":"watch"}\n');
    await expect.poll(() => watch.lines(), { timeout: 20_000 }).toHaveLength(1);
    watch.send('{"operation":"watch"}\n');
    expect(await watch.ended).not.toBe(0);
    expect(watch.lines().at(-1)).toMatchObject({ error: { code: "INVALID_ARGUMENT" } });
  },
);

describe("the argv of workers", () => {
  test("is absolute and starts from any folder; another kind is refused", async () => {
    const [interpreter, entry] = resolveWorkspaceWorkerArgv("skills");
    const child = spawn(interpreter, [entry], { cwd: "/", stdio: "ignore" });
    const ended = new Promise((resolve) => {
      child.once("exit", resolve);
    });
    expect(await ended).toBe(2);
    for (const kind of ["files", "", "__proto__", "toString"]) {
      expect(() => resolveWorkspaceWorkerArgv(kind)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});
