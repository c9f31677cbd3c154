import { isDigest, type Digest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";

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

/** A condition for each file of a tree; one digest is `INVALID_ARGUMENT`. */
export function requireTreeCondition(condition: Condition): Exclude<Condition["kind"], "match"> {
  if (condition.kind !== "match") return condition.kind;
  throw new Fault("INVALID_ARGUMENT", "a tree has no digest to be compared with", {
    details: { field: "if-match" },
    hint: "give absent or any",
  });
}
