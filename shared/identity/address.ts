import { BlockList, isIP } from "node:net";
import { Fault } from "../fault/fault.ts";

/** Where a gateway is reached. */
export interface Address {
  /** A host name or an IP address, IPv6 without brackets. */
  readonly host: string;
  /** 1 to 65535; 0, any free one, only where a program listens. */
  readonly port: number;
}

const hostName = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_](?:[a-z0-9_-]{0,62}))*\.?$/i;
const shape = /^(?:\[([0-9a-f:.]+)\]|([^:[\]\s]+)):(0|[1-9][0-9]{0,4})$/i;

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** `HOST:PORT` (IPv6 in brackets), or `INVALID_ARGUMENT` with `details.field`, `address` when no other is given. */
export function parseAddress(text: string, field = "address"): Address {
  const address = parseListenAddress(text, field);
  if (address.port > 0) return address;
  throw notAnAddress(text, field);
}

/** Like `parseAddress`, for where a program listens: port 0 means any free one. */
export function parseListenAddress(text: string, field = "address"): Address {
  const [, bracketed, plain, digits] = shape.exec(text) ?? [];
  const host = bracketed ?? plain ?? "";
  const port = Number(digits);
  const isHost = bracketed === undefined ? isIP(host) === 4 || hostName.test(host) : isIP(host) === 6;
  if (!isHost || port > 65_535) throw notAnAddress(text, field);
  return { host, port };
}

function notAnAddress(text: string, field: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${JSON.stringify(text.slice(0, 128))} is no address: HOST:PORT`, {
    details: { field },
    hint: "write an address like gateway.example:7443 or [::1]:7443",
  });
}

/** Whether a host is this machine itself. A name other than `localhost` is not looked up. */
export function isLoopbackHost(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return /^localhost\.?$/i.test(host);
  return loopback.check(host, family === 6 ? "ipv6" : "ipv4");
}

/** Puts host and port together, with the brackets that IPv6 needs. */
export function joinAddress({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
