import { Fault } from "../fault/fault.ts";

/** What a call gets that names no deadline, in milliseconds. */
export const defaultDeadlineMs = 60_000;

/** The longest deadline of a call, in milliseconds. */
export const maxDeadlineMs: number = 24 * 60 * 60 * 1000;

/** For streams that stay open (a watch): the call ends when its caller leaves or its link does. */
export const noDeadline: number = Number.POSITIVE_INFINITY;

/**
 * The deadline that a call gets, in milliseconds: 60 s when none is named. `INVALID_ARGUMENT` with `details.field` =
 * `deadline` for zero, negative ones and those above 24 h; `noDeadline` passes.
 */
export function resolveDeadlineMs(deadlineMs: number | undefined): number {
  if (deadlineMs === undefined) return defaultDeadlineMs;
  if (deadlineMs === noDeadline) return deadlineMs;
  if (deadlineMs > 0 && deadlineMs <= maxDeadlineMs) return deadlineMs;
  throw new Fault(
    "INVALID_ARGUMENT",
    `a deadline of ${deadlineMs} ms is not between 1 and ${maxDeadlineMs}`,
    {
      details: { field: "deadline" },
    },
  );
}
