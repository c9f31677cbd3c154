import path from "node:path";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, type JsonValue, toFaultJson } from "../../shared/fault/fault.ts";
import { readToLimit } from "../../shared/flow/read-to-limit.ts";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { readFirstLine } from "../workers/first-line.ts";
import { openWorkspace, type Workspace } from "../workspace/open-workspace.ts";
import { cutLines } from "./cut-lines.ts";
import { MemoryFiles } from "./memory-files.ts";
import { MemoryWatch, type MemoryEvent } from "./memory-watch.ts";
import { type MemoryRequest, parseMemoryRequest, parseWatchRequest } from "./worker-requests.ts";

const maxRequestBytes = 4 * 1024 * 1024;
const debounceMs = 500;
const feelEveryMs = 1000;

/** One exchange: a JSON request on standard input to its end, one JSON document on standard output. */
export async function runMemoryExchange(dir: string): Promise<void> {
  await using workspace = await openFolder(dir);
  let document: JsonValue;
  try {
    const request = parseMemoryRequest((await readToLimit(process.stdin, maxRequestBytes)).toString("utf8"));
    document = { result: await answer(new MemoryFiles(workspace.root, systemClock), request) };
  } catch (error) {
    const { code, message, details } = toFaultJson(faultFromError(error));
    document = { error: { code, message, details } };
    process.exitCode = 1;
  }
  await write(document);
}

/** A watch: one JSON line on standard input, then one JSON object a line on standard output until the input ends. */
export async function runMemoryWatch(dir: string): Promise<void> {
  await using workspace = await openFolder(dir);
  const ended = new AbortController();
  // A reader that has left is an end like that of the input.
  process.stdout.on("error", () => ended.abort(new Fault("CANCELLED", "the reader has left")));
  await using scope = new Scope("watch of the reader");
  try {
    const line = await readFirstLine(process.stdin, maxRequestBytes);
    if (line === "" && process.stdin.readableEnded) return;
    parseWatchRequest(line);
    endWithInput(ended);
    scope.spawn("feel", (signal) => feelForReader(AbortSignal.any([signal, ended.signal])));
    const files = new MemoryFiles(workspace.root, systemClock);
    const watch = new MemoryWatch({ dir, files, clock: systemClock, debounceMs });
    for await (const event of watch.subscribe(ended.signal)) await write(toLine(event));
  } catch (error) {
    const { code, message, details } = toFaultJson(
      faultFromError(ended.signal.aborted ? ended.signal.reason : error),
    );
    if (code === "CANCELLED") return;
    process.exitCode = 1;
    await write({ error: { code, message, details } });
  } finally {
    // An open input would keep the process alive.
    process.stdin.destroy();
  }
}

/**
 * Only a write tells that the reader of a pipe has left, and a quiet watch writes nothing: a blank now and then, which is
 * JSON's own white space at the begin of the next line.
 */
async function feelForReader(signal: AbortSignal): Promise<void> {
  for (;;) {
    await systemClock.sleep(feelEveryMs, { signal });
    // What waits to be written tells as well.
    if (process.stdout.writableLength === 0) process.stdout.write(" ");
  }
}

function endWithInput(ended: AbortController): void {
  process.stdin.once("end", () => ended.abort(new Fault("CANCELLED", "the input has ended")));
  process.stdin.once("data", () => {
    ended.abort(
      new Fault("INVALID_ARGUMENT", "a watch takes one line of input", { details: { field: "input" } }),
    );
  });
}

/** All of `dir` as far as memory files go, without a rule of its own. */
function openFolder(dir: string): Promise<Workspace> {
  const settings = {
    name: "files",
    dir: path.resolve(dir),
    read: ["**"],
    write: [],
    deny: [],
    remove: false,
    move: false,
    mkdir: false,
    followSymlinks: false,
    allowHardLinks: false,
    maxFileBytes: undefined,
  };
  const limits = { treeEntries: 1_000_000, treeDepth: 64 };
  // The program's own state is whoever started this process's concern: there is no home here.
  return openWorkspace(settings, { homeDir: path.join(settings.dir, ".fairlead"), epoch: 1, limits });
}

async function answer(files: MemoryFiles, request: MemoryRequest): Promise<JsonValue> {
  switch (request.operation) {
    case "list":
      return await list(files);
    case "inspect":
      return await inspect(files, request.paths);
    case "read": {
      const found = await files.read(request.path);
      if (!found) return { status: "not_found", text: "" };
      const { canonicalPath, digest } = found;
      return { status: "ok", ...cutLines(found.text, request), digest, canonicalPath };
    }
  }
}

async function list(files: MemoryFiles): Promise<JsonValue> {
  const scan = await files.scan(new AbortController().signal);
  return {
    files: scan.files.map(toFile),
    skipped: scan.skipped.map(({ path, fault }) => ({
      path,
      code: fault.code,
      message: fault.message,
      details: fault.details,
    })),
  };
}

async function inspect(files: MemoryFiles, paths: readonly string[]): Promise<JsonValue> {
  const found = await files.inspect(paths);
  return {
    files: found.map((one) => {
      if (!one) return null;
      if (!(one instanceof Fault)) return toFile(one);
      const { code, message, details } = one;
      return { error: { code, message, details } };
    }),
  };
}

function toFile(file: Awaited<ReturnType<MemoryFiles["scan"]>>["files"][number]): {
  readonly [key: string]: JsonValue;
} {
  const { path, sizeBytes, mtimeNs } = file.entry;
  const modified = new Date(Number(mtimeNs / 1_000_000n)).toISOString();
  return { path, sizeBytes, modified, digest: file.digest };
}

function toLine(event: MemoryEvent): JsonValue {
  const cursor = `${event.epoch}:${event.sequence}`;
  switch (event.kind) {
    case "changed":
      return { event: "changed", path: event.path, kind: event.change, cursor };
    case "unavailable":
      return { event: "unavailable", reason: event.fault.code, cursor };
    case "gap":
      return { event: "gap", cursor };
    case "available":
      return { event: "available", epoch: event.epoch, cursor };
  }
}

/** Writes one line, and waits until the reader took it. */
function write(document: JsonValue): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${JSON.stringify(document)}\n`, (error) => (error ? reject(error) : resolve()));
  });
}
