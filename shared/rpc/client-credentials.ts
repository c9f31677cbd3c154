import type { Socket } from "node:net";
import { connect, createSecureContext, type DetailedPeerCertificate, type TLSSocket } from "node:tls";
import { ChannelCredentials, credentials as grpcCredentials, type experimental } from "@grpc/grpc-js";
import { faultFromError } from "../fault/fault-from-error.ts";
import { Fault } from "../fault/fault.ts";
import { eagerSocket } from "./eager-socket.ts";

/** What a client shows, and how it judges the server. */
export interface ClientTls {
  /** The client's key and certificate; without them it connects as nobody. */
  readonly keyPem?: string;
  readonly certificatePem?: string;
  /**
   * Judges the server's certificate chain (DER, its own first, then each issuer that it sent). The chain is linked by
   * names only: whoever judges verifies the signatures. A fault ends the connection before anything is written.
   */
  readonly verifyPeer: (chain: readonly Uint8Array[]) => Fault | undefined;
}

/** How a channel connects: plainly, or with TLS material that is read when it dials. */
export type ClientSecurity = "insecure" | (() => ClientTls | Promise<ClientTls>);

/** One dial of one channel. */
export interface Dial {
  readonly credentials: ChannelCredentials;
  /** Whether the peer was reached and passed. */
  readonly isConnected: boolean;
  /** Why the dial failed or the connection was ended from here, if it was. */
  readonly fault: Fault | undefined;
  /** Ends the connection and whatever it still tries to become; only the first fault counts. */
  destroy(fault: Fault): void;
}

type SecureConnector = experimental.SecureConnector;
type Connected = experimental.SecureConnectResult;

/**
 * Credentials for exactly one connection. grpc-js would dial again by itself for the next stream, with the old
 * certificate; a second dial is refused here.
 */
export function createDial(security: ClientSecurity): Dial {
  return new OneDial(security);
}

class OneDial extends ChannelCredentials implements Dial {
  readonly #security: ClientSecurity;
  readonly #sockets: Socket[] = [];
  #dialled = false;
  #connected = false;
  #fault: Fault | undefined;

  constructor(security: ClientSecurity) {
    super();
    this.#security = security;
  }

  get credentials(): ChannelCredentials {
    return this;
  }

  get isConnected(): boolean {
    return this.#connected;
  }

  get fault(): Fault | undefined {
    return this.#fault;
  }

  destroy(fault: Fault): void {
    this.#fault ??= fault;
    // The TLS socket goes before the one it stands on: the other way round Node reads freed memory and the process dies.
    for (const socket of this.#sockets.toReversed()) socket.destroy();
  }

  override _isSecure(): boolean {
    return this.#security !== "insecure";
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(): SecureConnector {
    return {
      connect: (socket) => this.#dial(socket),
      waitForReady: async () => this.#fault && Promise.reject(this.#fault),
      getCallCredentials: () => grpcCredentials.createEmpty(),
      destroy: () => undefined,
    };
  }

  async #dial(socket: Socket): Promise<Connected> {
    socket.on("error", () => undefined);
    if (this.#dialled || this.#fault) {
      socket.destroy();
      throw (
        this.#fault ?? new Fault("GATEWAY_UNREACHABLE", "the connection is gone; another one begins anew")
      );
    }
    this.#dialled = true;
    this.#sockets.push(socket);
    try {
      const connected =
        this.#security === "insecure"
          ? { socket: eagerSocket(socket), secure: false }
          : { socket: eagerSocket(await this.#secure(socket, await this.#security())), secure: true };
      this.#connected = true;
      return connected;
    } catch (error) {
      this.destroy(faultFromError(error));
      throw error;
    }
  }

  #secure(socket: Socket, tls: ClientTls): Promise<TLSSocket> {
    const secureContext = createSecureContext({
      minVersion: "TLSv1.3",
      ...(tls.keyPem === undefined ? {} : { key: tls.keyPem }),
      ...(tls.certificatePem === undefined ? {} : { cert: tls.certificatePem }),
    });
    return new Promise((resolve, reject) => {
      // The pin decides, not the machine's list of authorities.
      const secured = connect({ socket, secureContext, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
      this.#sockets.push(secured);
      secured.once("secureConnect", () => {
        const fault = this.#fault ?? tls.verifyPeer(chainOf(secured.getPeerCertificate(true)));
        // Not from within the handshake's own callback: what follows destroys the socket that made it.
        if (fault) setImmediate(reject, fault);
        else resolve(secured);
      });
      secured.on("error", (error) => reject(handshakeFault(error)));
      secured.once("close", () => reject(this.#fault ?? handshakeFault(new Error("the peer hung up"))));
    });
  }
}

function handshakeFault(error: Error): Fault {
  return new Fault("GATEWAY_UNREACHABLE", `the TLS handshake failed: ${error.message}`, {
    details: { reason: "handshake_failed" },
    cause: error,
  });
}

function chainOf(own: DetailedPeerCertificate): readonly Uint8Array[] {
  const chain: Uint8Array[] = [];
  let at: DetailedPeerCertificate | undefined = own;
  // The last one names itself as its issuer; a chain is short, whatever a peer sends.
  while (at?.raw && chain.length < 8) {
    chain.push(at.raw);
    at = at.issuerCertificate === at ? undefined : at.issuerCertificate;
  }
  return chain;
}
