import { isLogLevel, type Log } from "../log/log.ts";
import { createLog } from "../log/pino-log.ts";
import type { Runtime } from "./runtime.ts";

/** The log of a long-running command: on standard error, from the level of `FAIRLEAD_LOG` on (default info). */
export function createCommandLog(runtime: Pick<Runtime, "environment" | "output">): Log {
  const { logLevel = "info" } = runtime.environment;
  return createLog({
    level: isLogLevel(logLevel) ? logLevel : "info",
    pretty: runtime.output.isErrorTerminal,
  });
}
