import type { JsonValue } from "../../shared/fault/fault.ts";
import { FaultCode, type Fault } from "../../shared/gen/fairlead/v1/fault_pb.ts";

const names = new Map<number, string>(Object.entries(FaultCode).map(([name, value]) => [value, name]));

/** A fault inside an answer as `--json` shows it; null when there is none. */
export function faultToJson(fault: Fault | undefined): JsonValue {
  if (!fault) return null;
  return {
    code: names.get(fault.code) ?? "INTERNAL",
    message: fault.message,
    ...(fault.hint === "" ? {} : { hint: fault.hint }),
    retryable: fault.retryable,
    details: toJsonValue(fault.details ?? {}),
  };
}

/** A protobuf struct, which is plain JSON already, as JSON to the type checker. */
export function toJsonValue(value: object): JsonValue {
  return value as JsonValue;
}
