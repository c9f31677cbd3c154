import { Fault } from "../fault/fault.ts";

/** A 64-bit count of bytes as a number; one that no file can have is `INVALID_ARGUMENT` with `details.field`. */
export function toByteCount(value: bigint, field: string): number {
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new Fault(
    "INVALID_ARGUMENT",
    `${field} is ${value}; at most ${Number.MAX_SAFE_INTEGER} is possible`,
    { details: { field }, hint: "give a count of bytes that a file can have" },
  );
}
