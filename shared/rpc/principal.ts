import { Role } from "../gen/fairlead/v1/options_pb.ts";

/** Who calls, as a token or the gateway's own socket proved it. */
export interface Principal {
  /** The user's name. */
  readonly user: string;
  readonly role: Role;
  /** The token that was shown. */
  readonly tokenId?: string;
  /** When that token ends, in milliseconds since 1970. */
  readonly expiresAt?: number;
}

/** Whoever calls over the gateway's own socket, which takes only its owner. */
export const localPrincipal: Principal = { user: "local", role: Role.ADMIN };

const names = new Map<Role, string>([
  [Role.VIEWER, "viewer"],
  [Role.OPERATOR, "operator"],
  [Role.ADMIN, "admin"],
]);

/** The names of all roles, the least first. */
export const roleNames: readonly string[] = [...names.values()];

/** A role's name; empty for none. */
export function nameOfRole(role: Role): string {
  return names.get(role) ?? "";
}

/** The role of that name, if there is one. */
export function findRole(name: string): Role | undefined {
  for (const [role, known] of names) if (known === name) return role;
  return undefined;
}
