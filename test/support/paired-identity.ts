import { joinGateway } from "../../node-agent/pairing/join.ts";
import { dialTls } from "../../node-agent/pairing/tls.ts";
import type { ProtocolWindow } from "../../shared/identity/protocol.ts";
import type { ClientTls } from "../../shared/rpc/client-credentials.ts";
import type { TestGateway } from "./start-gateway.ts";
import { inviteCode } from "./start-node.ts";
import { makeTempFolder } from "./temp-folder.ts";

/** An identity that a real gateway issued, for a peer that a test plays. */
export interface PairedIdentity extends AsyncDisposable {
  readonly nodeId: string;
  readonly alias: string;
  /** Where its gateway listens. */
  readonly address: string;
  readonly tls: () => ClientTls;
}

/** What the identity is paired as. */
export interface PairingChoice {
  readonly alias: string;
  readonly profile?: "read" | "work" | "full";
  readonly protocol?: ProtocolWindow;
}

/** Pairs a machine with a gateway by its own code, without an agent. */
export async function pairIdentity(gateway: TestGateway, choice: PairingChoice): Promise<PairedIdentity> {
  const folder = await makeTempFolder();
  const code = await inviteCode(gateway, ["--name", choice.alias, "--profile", choice.profile ?? "work"]);
  const { identity } = await joinGateway({
    code,
    dir: folder.join("node"),
    hostName: "machine",
    platform: "linux",
    agentVersion: "0.0.9",
    ...(choice.protocol ? { protocol: choice.protocol } : {}),
  });
  return {
    nodeId: identity.nodeId,
    alias: identity.alias,
    address: gateway.link,
    tls: () => dialTls(identity),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
