import { lstat } from "node:fs/promises";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { isLoopbackHost, joinAddress, parseAddress } from "../../shared/identity/address.ts";
import { parsePin, type Pin } from "../../shared/identity/pin.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { findAdminSocket } from "./find-admin-socket.ts";
import { readLogin } from "./login-file.ts";

/** What named the gateway. */
export type ChosenBy = "option" | "environment" | "local_socket" | "login";

/** A gateway elsewhere, with what it takes to be let in. */
export interface RemoteGateway {
  readonly chosenBy: Exclude<ChosenBy, "local_socket">;
  /** `HOST:PORT`. */
  readonly address: string;
  /** The key that its authority must have. */
  readonly pin: Pin;
  /** A secret. */
  readonly token: string;
}

/** The gateway of this home. */
export interface LocalGateway {
  readonly chosenBy: "local_socket";
  /** Its socket. */
  readonly socket: string;
}

/** What choosing reads of the process. */
export type ChoosingRuntime = Pick<Runtime, "home" | "environment" | "gatewayUrl">;

/** The port of a gateway when its URL names none. */
const defaultPort = 7443;

/**
 * Which gateway a command talks to: the one of `--gateway`, else of `FAIRLEAD_GATEWAY`, else that of this home when its
 * socket is there, else the one of the login, else again that of this home. `INVALID_ARGUMENT` for a URL that is none, one
 * that would send the token in clear, and a pin that is missing; `UNAUTHENTICATED` without a token.
 */
export async function chooseGateway(runtime: ChoosingRuntime): Promise<RemoteGateway | LocalGateway> {
  const { environment, gatewayUrl, home } = runtime;
  const named = gatewayUrl ?? environment.gateway;
  if (named !== undefined) {
    const [chosenBy, field] =
      gatewayUrl === undefined
        ? (["environment", "FAIRLEAD_GATEWAY"] as const)
        : (["option", "gateway"] as const);
    return await toRemote(runtime, { chosenBy, address: parseGatewayUrl(named, field) });
  }
  const socket = await findAdminSocket(home.gatewayDir);
  if (!(await isThere(socket))) {
    const login = await readLogin(home);
    if (login) return { chosenBy: "login", ...login };
  }
  return { chosenBy: "local_socket", socket };
}

/** The address in a gateway's URL: `https://HOST[:PORT]`, or `HOST:PORT`. `INVALID_ARGUMENT` for everything else. */
export function parseGatewayUrl(text: string, field: string): string {
  const [, scheme = "https", place = ""] = /^(?:([a-z][a-z0-9+.-]*):\/\/)?([^/?#]*)\/?$/i.exec(text) ?? [];
  const hasPort = /:[0-9]+$/.test(place);
  if (scheme.toLowerCase() === "http") throw plainFault(text, place, field);
  if (scheme.toLowerCase() !== "https" || place.includes("@")) throw notUrlFault(text, field);
  return joinAddress(parseAddress(hasPort ? place : `${place}:${defaultPort}`, field));
}

function plainFault(text: string, place: string, field: string): Fault {
  const host = place.replace(/:[0-9]+$/, "").replace(/^\[(.*)\]$/, "$1");
  const why = isLoopbackHost(host)
    ? "that port is for MCP and pages; administrators use the one that nodes connect to"
    : "a token would travel in clear";
  return new Fault("INVALID_ARGUMENT", `${text.slice(0, 128)} is plain HTTP: ${why}`, {
    hint: `--gateway https://${joinAddress({ host, port: defaultPort })}`,
    details: { field },
  });
}

function notUrlFault(text: string, field: string): Fault {
  return new Fault(
    "INVALID_ARGUMENT",
    `${JSON.stringify(text.slice(0, 128))} is no gateway: https://HOST:PORT`,
    {
      hint: "write it like https://gateway.example:7443",
      details: { field },
    },
  );
}

async function toRemote(
  { environment, home }: ChoosingRuntime,
  { chosenBy, address }: Pick<RemoteGateway, "chosenBy" | "address">,
): Promise<RemoteGateway> {
  const login = environment.token && environment.pin ? undefined : await readLogin(home);
  const same = login?.address === address ? login : undefined;
  const token = environment.token ?? same?.token;
  if (token === undefined) {
    throw new Fault("UNAUTHENTICATED", `there is no token for the gateway ${address}`, {
      hint: `fairlead login https://${address}`,
    });
  }
  const pin = environment.pin === undefined ? same?.pin : parsePin(environment.pin, "FAIRLEAD_PIN");
  if (pin === undefined) {
    throw new Fault("INVALID_ARGUMENT", `the pin of the gateway ${address} is not known`, {
      hint: "set FAIRLEAD_PIN to the pin that fairlead gateway status prints on the gateway's machine",
      details: { field: "FAIRLEAD_PIN" },
    });
  }
  return { chosenBy, address, pin, token };
}

async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}
