import type { CliResult } from "./run-cli.ts";

/** How a command failed, as `--json` tells it. */
export interface CliFault {
  readonly exitCode: number | null;
  readonly code: string;
  readonly message: string;
  /** Empty when there is none. */
  readonly hint: string;
  readonly retryable: boolean;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Reads the error object of a command that was run with `--json`; fails when there is none. */
export function faultOf(result: CliResult): CliFault {
  const { exitCode } = result;
  const error = memberOf(result.json, "error");
  if (error === undefined) throw new Error(`the command did not fail: ${result.stdout}`);
  const text = (name: string): string => {
    const value = memberOf(error, name);
    return typeof value === "string" ? value : "";
  };
  const details = memberOf(error, "details");
  return {
    exitCode,
    code: text("code"),
    message: text("message"),
    hint: text("hint"),
    retryable: memberOf(error, "retryable") === true,
    details: typeof details === "object" && details !== null ? { ...details } : {},
  };
}

/** A member of a JSON object; undefined when it has none of this name, or is no object. */
export function memberOf(json: unknown, name: string): unknown {
  if (typeof json !== "object" || json === null) return undefined;
  return new Map<string, unknown>(Object.entries(json)).get(name);
}

/** A member that is a list; empty when it is none. */
export function listOf(json: unknown, name: string): readonly unknown[] {
  const list = memberOf(json, name);
  return Array.isArray(list) ? list : [];
}
