import { isLoopbackHost, parseAddress } from "../../shared/identity/address.ts";
import { formatJoinCode, maxJoinAddresses } from "../../shared/identity/join-code.ts";
import type { Pin } from "../../shared/identity/pin.ts";
import type { StoreDb } from "../store/store.ts";
import { createCode, type InviteRequest } from "./codes.ts";

/** An invitation for a machine, as the operator gets it. */
export interface Invite {
  /** The code's text. It is kept nowhere. */
  readonly code: string;
  /** What to run on the other machine. */
  readonly command: string;
  /** When it ends, in milliseconds since 1970. */
  readonly expiresMs: number;
  readonly uses: number;
  /** Whether its machines wait for an administrator. */
  readonly requireApproval: boolean;
  /** What the operator should know first. */
  readonly warnings: readonly string[];
}

/** What an invite is made from beside the request. */
export interface InviteDeps {
  readonly db: StoreDb;
  readonly pin: Pin;
  /** Where nodes reach the gateway, `HOST:PORT`. */
  readonly addresses: readonly string[];
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

/** Makes a code with everything that a machine needs to come here. Faults are those of `createCode`. */
export async function createInvite(deps: InviteDeps, request: InviteRequest): Promise<Invite> {
  const addresses = deps.addresses.slice(0, maxJoinAddresses);
  const carried = { purpose: "node", addresses, pin: deps.pin } as const;
  // Tried before anything is kept: an address that no code can carry makes no code.
  formatJoinCode({ ...carried, secret: new Uint8Array(16) });
  const { secret, expiresAt, uses, requireApproval } = await createCode(deps.db, request, deps.now);
  const code = formatJoinCode({ ...carried, secret });
  return {
    code,
    command: `fairlead node join ${code}`,
    expiresMs: expiresAt,
    uses,
    requireApproval,
    warnings: warningsFor(deps.addresses),
  };
}

function warningsFor(addresses: readonly string[]): readonly string[] {
  const warnings: string[] = [];
  if (addresses.every((address) => isLoopbackHost(parseAddress(address).host))) {
    warnings.push(
      "only this machine can reach the gateway: start it with --listen HOST:PORT, and name its public address with --advertise HOST:PORT, for others to join",
    );
  }
  if (addresses.length > maxJoinAddresses) {
    warnings.push(`the code carries the first ${maxJoinAddresses} of ${addresses.length} addresses`);
  }
  return warnings;
}
