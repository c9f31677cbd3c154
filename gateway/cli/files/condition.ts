import { isDigest, type Digest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { WritePrecondition, type WriteHeader } from "../../../shared/gen/fairlead/v1/files_pb.ts";

/** What `--if-match` says must stand at the target; `default` when it was not given. */
export type Condition =
  | { readonly kind: "default" }
  | { readonly kind: "any" }
  | { readonly kind: "absent" }
  | { readonly kind: "match"; readonly digest: Digest };

/** Parses `--if-match`; `INVALID_ARGUMENT` names it. */
export function parseCondition(text: string | undefined): Condition {
  if (text === undefined) return { kind: "default" };
  if (text === "absent" || text === "any") return { kind: text };
  if (isDigest(text)) return { kind: "match", digest: text };
  throw new Fault("INVALID_ARGUMENT", `--if-match is ${JSON.stringify(text.slice(0, 80))}`, {
    details: { field: "if-match" },
    hint: "give sha256: and 64 hex digits, absent, or any",
  });
}

/** What holds for each file of a tree; one digest is `INVALID_ARGUMENT`. */
export function requireTreeCondition(condition: Condition): Exclude<Condition["kind"], "match"> {
  if (condition.kind !== "match") return condition.kind;
  throw new Fault("INVALID_ARGUMENT", "a tree has no digest to be compared with", {
    details: { field: "if-match" },
    hint: "give absent or any",
  });
}

/** What the wire says of a condition; without one the gateway compares with what the user last read. */
export function toWireCondition(condition: Condition): Pick<WriteHeader, "precondition" | "ifMatch"> {
  const ifMatch = condition.kind === "match" ? condition.digest : "";
  return { precondition: wireConditions[condition.kind], ifMatch };
}

const wireConditions = {
  default: WritePrecondition.UNSPECIFIED,
  any: WritePrecondition.ANY,
  absent: WritePrecondition.ABSENT,
  match: WritePrecondition.MATCH,
} as const;
