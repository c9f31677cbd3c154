import { X509Certificate } from "node:crypto";
import type { LinkHost, LinksOptions } from "../../../gateway/link/links-options.ts";
import type { LiveLink } from "../../../gateway/link/links.ts";
import { startLinks } from "../../../gateway/link/start-links.ts";
import type { LinkOptions, NodeLinkHandle } from "../../../node-agent/link/link-options.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import { startGrpcServer, type GrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { createServerCredentials } from "../../../shared/rpc/server-credentials.ts";
import { makeAuthority, type Authority } from "./throwaway-certificates.ts";

/** A gateway's links on a TLS port of loopback. */
export interface LinkGateway extends AsyncDisposable {
  readonly authority: Authority;
  readonly server: GrpcServer;
  readonly host: LinkHost;
}

/** What the end of a test's gateway may choose. */
export type LinkGatewayOptions = Partial<LinksOptions> & {
  readonly authority?: Authority;
  readonly port?: number;
  /** The clock of the server below the links; the machine's own by default. */
  readonly serverClock?: Clock;
};

/** The common name in a certificate of the throw-away authority: the node's id. */
export async function identifyByName(certificate: Uint8Array): Promise<{ nodeId: string; alias: string }> {
  const name = new X509Certificate(certificate).subject.replace("CN=", "");
  return { nodeId: name, alias: name };
}

/** Starts a gateway that takes links of nodes with a certificate of `authority`. */
export async function openLinkGateway(options: LinkGatewayOptions = {}): Promise<LinkGateway> {
  const authority = options.authority ?? (await makeAuthority());
  const host = startLinks({ identify: identifyByName, ...options });
  const { credentials } = createServerCredentials(authority.server);
  const address = `127.0.0.1:${options.port ?? 0}`;
  const server = await startGrpcServer({
    services: [host.service, host.questions],
    address,
    credentials,
    ...(options.serverClock ? { clock: options.serverClock } : {}),
  });
  return {
    authority,
    server,
    host,
    [Symbol.asyncDispose]: async () => {
      await host[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Starts a node that dials `gateway`. */
export async function openLinkNode(
  gateway: LinkGateway,
  options: Partial<LinkOptions> & { readonly name?: string },
): Promise<NodeLinkHandle> {
  const tls = await gateway.authority.client(options.name ?? "devbox");
  return startLink({ addresses: [gateway.server.address], loadTls: () => tls, services: [], ...options });
}

/** The live link of a node, once there is one. */
export async function whenLinked(gateway: LinkGateway, nodeId = "devbox"): Promise<LiveLink> {
  const late = AbortSignal.timeout(20_000);
  for await (const { state, nodeId: changed } of gateway.host.links.changes({ signal: late })) {
    if (changed === nodeId && state === "online") return gateway.host.links.get(nodeId);
  }
  throw new Fault("DEADLINE_EXCEEDED", `${nodeId} did not link`);
}
