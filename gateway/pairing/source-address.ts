import { isIPv6 } from "node:net";

/** Where a call comes from. */
export interface CallSource {
  /** The IP address alone, as people know it. */
  readonly address: string;
  /** What counts as one address for bounds: of IPv6 the network of 64 bits, which one machine can fill at will. */
  readonly source: string;
}

const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** The source of a call from its peer, `HOST:PORT`: one machine counts as one, however many connections it makes. */
export function sourceOf(peer: string): CallSource {
  const bare = peer.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const address = mapped.exec(bare)?.[1] ?? bare;
  return { address, source: isIPv6(address) ? `${networkOf(address)}::/64` : address };
}

function networkOf(address: string): string {
  const [head = "", tail] = (address.split("%", 1)[0] ?? "").toLowerCase().split("::", 2);
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: zeros }, () => "0"), ...right];
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
