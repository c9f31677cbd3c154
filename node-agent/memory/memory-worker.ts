import { Fault } from "../../shared/fault/fault.ts";
import type { WorkerWorkspaces } from "../workers/worker-settings.ts";

/**
 * The Memory worker: `--serve` for the agent (framed stdio), `--files DIR` for one JSON exchange, `--watch-files DIR` for a
 * stream of JSON lines. A wrong start is one line on standard error and exit status 2, before any file is opened.
 */
async function main(argv: readonly string[]): Promise<void> {
  const [mode, dir, ...rest] = argv;
  if (mode === "--serve" && dir === undefined) return await serveAgent();
  if (dir === undefined || rest.length > 0) throw wrongStart();
  // Each way of running loads what it needs alone: the protocol costs more than a whole exchange.
  const modes = await import("./worker-modes.ts");
  if (mode === "--files") return await modes.runMemoryExchange(dir);
  if (mode === "--watch-files") return await modes.runMemoryWatch(dir);
  throw wrongStart();
}

async function serveAgent(): Promise<void> {
  const { runWorker } = await import("../workers/run-worker.ts");
  const { serveMemory } = await import("./serve-memory.ts");
  await runWorker(async (settings) => {
    const memory = serveMemory(settings as WorkerWorkspaces & { readonly debounceMs?: number });
    return { services: [memory.service], [Symbol.asyncDispose]: () => memory[Symbol.asyncDispose]() };
  });
}

function wrongStart(): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    "start it with --files DIR, --watch-files DIR or --serve, and nothing else",
  );
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = 2;
  const text = error instanceof Fault ? `${error.message} (${error.code})` : String(error);
  process.stderr.write(`memory worker: ${text.replaceAll(/\s+/g, " ")}\n`);
}
