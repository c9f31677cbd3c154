import { Fault } from "../../shared/fault/fault.ts";
import type { ServedService } from "../../shared/rpc/service.ts";
import { serveStdio } from "../../shared/rpc/stdio.ts";
import { readFirstLine } from "./first-line.ts";

/** What a worker serves, and what ends with it. */
export interface WorkerParts extends AsyncDisposable {
  readonly services: readonly ServedService[];
}

const maxSettingsBytes = 4 * 1024 * 1024;

/**
 * The life of a lasting worker: settings from the first line of its input, then its services until the input ends. Its
 * standard output carries frames and nothing else.
 */
export async function runWorker(open: (settings: unknown) => Promise<WorkerParts>): Promise<void> {
  const line = await readFirstLine(process.stdin, maxSettingsBytes);
  await using parts = await open(parseSettings(line));
  await using server = serveStdio({
    services: parts.services,
    input: process.stdin,
    output: process.stdout,
    onFailed: (error) => reportDefect(error),
  });
  await server.closed;
}

function parseSettings(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new Fault("INVALID_ARGUMENT", "the worker's settings are not JSON", {
      details: { field: "settings" },
      cause: error,
    });
  }
}

/** A fault is the caller's to hear; anything else is a defect, and the log is the only place that learns of it. */
function reportDefect(error: unknown): void {
  if (error instanceof Fault && error.code !== "INTERNAL") return;
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${text.replaceAll(/\s*\n\s*/g, " | ")}\n`);
}
