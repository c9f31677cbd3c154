import { pino, type DestinationStream, type Logger } from "pino";
import type { Log, LogFields, LogLevel } from "./log.ts";
import { redact, redactText } from "./redact.ts";
import { safeText } from "./safe-text.ts";

/** How the log is written. */
export interface LogOptions {
  readonly level: LogLevel;
  /** Lines for people instead of JSON. */
  readonly pretty: boolean;
  /** Where lines go; standard error, at once, by default. */
  readonly write?: (line: string) => void;
}

/** A log on standard error: one JSON object a line, or a line for people. Every value is redacted first. */
export function createLog(options: LogOptions): Log {
  const write = options.write ?? ((line: string): void => void process.stderr.write(line));
  const destination: DestinationStream = {
    write: (line) => write(options.pretty ? toPrettyLine(line) : line),
  };
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: "message",
    },
    destination,
  );
  return wrap(logger);
}

function wrap(logger: Logger): Log {
  const say = (level: "debug" | "info" | "warn" | "error", message: string, fields?: LogFields): void => {
    if (logger.isLevelEnabled(level)) logger[level](toObject(fields), redactText(message));
  };
  return {
    debug: (message, fields) => say("debug", message, fields),
    info: (message, fields) => say("info", message, fields),
    warn: (message, fields) => say("warn", message, fields),
    error: (message, fields) => say("error", message, fields),
    child: (fields) => wrap(logger.child(toObject(fields))),
  };
}

/** The line's own keys are kept free: a field of such a name gets a `_` behind it. */
const ownKeys: ReadonlySet<string> = new Set(["level", "time", "message"]);

function toObject(fields: LogFields | undefined): Record<string, unknown> {
  const clean = redact(fields ?? {});
  if (typeof clean !== "object" || clean === null) return {};
  return Object.fromEntries(
    Object.entries(clean).map(([name, value]) => [ownKeys.has(name) ? `${name}_` : name, value]),
  );
}

function toPrettyLine(line: string): string {
  const parsed: unknown = JSON.parse(line);
  if (typeof parsed !== "object" || parsed === null) return line;
  const { level, time, message, ...fields } = { level: "", time: "", message: "", ...parsed };
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${toShort(value)}`);
  return `${String(time).slice(11, 23)} ${String(level).padEnd(5)} ${safeText(String(message), 1_000)}${rest.join("")}\n`;
}

function toShort(value: unknown): string {
  return safeText(typeof value === "string" ? value : JSON.stringify(value), 400);
}
