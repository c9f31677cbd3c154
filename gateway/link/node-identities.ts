import type { Hello, IdentityReport } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { refuseDouble, reportStale } from "./clones.ts";
import type { Link } from "./link.ts";
import type { LinksOptions } from "./links-options.ts";
import type { NodeState } from "./node-state.ts";
import { readReport } from "./read-report.ts";
import { expiredFault, watchExpiry } from "./watch-expiry.ts";

/** What it takes: who is told what. */
export type NodeIdentitiesOptions = Pick<LinksOptions, "trust" | "onReport" | "onClone"> & {
  readonly clock: Clock;
  readonly nodes: ReadonlyMap<string, NodeState>;
};

/** What the links of a gateway do about the identities of their nodes: certificates that end, copies, and trust. */
export class NodeIdentities {
  readonly #options: NodeIdentitiesOptions;

  constructor(options: NodeIdentitiesOptions) {
    this.#options = options;
  }

  /** `CONFLICT` for a hello of another process than the one that is linked, as long as that one lives. */
  async admit(node: NodeState, hello: Hello, from: string): Promise<void> {
    await refuseDouble(node, { hello, from }, this.#watch());
  }

  /** A link comes from a home whose state is older than what was given to its node. */
  isStale(node: NodeState, hello: Hello, from: string): void {
    reportStale(node, { hello, from }, this.#watch());
  }

  #watch(): Parameters<typeof refuseDouble>[2] {
    return { clock: this.#options.clock, onClone: this.#options.onClone };
  }

  /** A link was accepted: it hears whom to trust, and ends with its certificate. */
  begin(link: Link): void {
    this.#sendTrust(link);
    void watchExpiry(link, this.#options.clock).then((expired) => {
      if (expired) link.end(expiredFault(link.alias, link.expiresAt));
    });
  }

  /** A node says how its identity does. */
  reported(node: NodeState, message: IdentityReport): void {
    const report = readReport(message);
    node.reported(report);
    this.#options.onReport?.(node.presence.nodeId, report);
  }

  /** A node renewed its certificate: its live link may go on for so long, in milliseconds since 1970. */
  renewed(nodeId: string, expiresAt: number): void {
    this.#options.nodes.get(nodeId)?.link?.renewed(expiresAt);
  }

  /** Tells every linked node which authorities to trust. */
  tellTrust(): void {
    for (const { link } of this.#options.nodes.values()) if (link) this.#sendTrust(link);
  }

  #sendTrust(link: Link): void {
    const { trust } = this.#options;
    if (trust) link.send({ case: "trust", value: trust() });
  }
}
