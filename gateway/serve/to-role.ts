import { Fault } from "../../shared/fault/fault.ts";
import type { Role } from "../../shared/gen/fairlead/v1/options_pb.ts";
import { findRole, roleNames } from "../../shared/rpc/principal.ts";

/** The role of that name; `INVALID_ARGUMENT` with `details.field` when there is none. */
export function toRole(text: string): Role {
  const role = findRole(text);
  if (role !== undefined) return role;
  throw new Fault("INVALID_ARGUMENT", `there is no role ${text.slice(0, 64)}`, {
    hint: `use one of ${roleNames.join(", ")}`,
    details: { field: "role", actual: text.slice(0, 64) },
  });
}
