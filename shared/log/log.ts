/** What goes with a line of the log: plain facts. Secrets are struck out by name and by shape. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Where parts of the program say what an operator may want to know later. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log whose lines all carry these fields, such as `{ room: "link", nodeId }`. */
  child(fields: LogFields): Log;
}

/** A log that keeps nothing. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silentLog,
};

/** The levels, most first. */
export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;

/** From which level on lines are written. */
export type LogLevel = (typeof logLevels)[number];

/** Whether `text` names a level. */
export function isLogLevel(text: string): text is LogLevel {
  return logLevels.some((level) => level === text);
}
