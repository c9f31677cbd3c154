import type { FaultCode } from "../fault/codes.ts";
import type { FaultDetails } from "../fault/fault.ts";

/** A defect of a skill. An `error` makes it broken, a `warning` does not. */
export interface Diagnostic {
  readonly severity: "error" | "warning";
  /** The line in the instruction file, from 1; 0 when no line is meant. */
  readonly line: number;
  /** The field of the front matter (`requires.bins`), where one is meant. */
  readonly field?: string;
  /** What is wrong, with the rule. */
  readonly message: string;
  /** What mends it. */
  readonly hint: string;
  /** For a file that could not be read: the code and facts of the fault. */
  readonly code?: FaultCode;
  readonly details?: FaultDetails;
}

/** Whether any of `diagnostics` makes its skill broken. */
export function hasError(diagnostics: readonly Diagnostic[]): boolean {
  return diagnostics.some((diagnostic) => diagnostic.severity === "error");
}
