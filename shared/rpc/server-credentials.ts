import { X509Certificate } from "node:crypto";
import { type SecureContextOptions, TLSSocket } from "node:tls";
import { ServerCredentials } from "@grpc/grpc-js";
import { connectTimeoutMs, maxStreamsCount, streamWindowBytes } from "./limits.ts";

/** What a server shows, and whose certificates it believes. */
export interface ServerTls {
  readonly keyPem: string;
  /** The server's certificate and those above it. */
  readonly certificatePem: string;
  /** The authorities whose client certificates count. */
  readonly authorityPem: string;
  /** Authorities whose client certificates count no more, but may come in to be told so; none by default. */
  readonly retiredPem?: string;
}

function toContext(tls: ServerTls): SecureContextOptions {
  return { key: tls.keyPem, cert: tls.certificatePem, ca: tls.authorityPem, minVersion: "TLSv1.3" };
}

/** Whose client certificates are let in. */
class KnownAuthorities {
  #certificates: readonly X509Certificate[] = [];

  set(tls: ServerTls): void {
    const all = tls.authorityPem + (tls.retiredPem ?? "");
    const pems = all.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    this.#certificates = pems.map((pem) => new X509Certificate(pem));
  }

  signed(certificate: X509Certificate): boolean {
    return this.#certificates.some(
      (one) => certificate.checkIssued(one) && certificate.verify(one.publicKey),
    );
  }
}

/**
 * Takes clients without a certificate and those with one of a known authority on one port; a connection with any other
 * certificate ends in the handshake, before a byte of HTTP/2. Whether a certificate counts is judged with each call.
 * Windows, the stream limit and the handshake's time limit hold from the first SETTINGS.
 */
class OptionalClientCredentials extends ServerCredentials {
  readonly #known: KnownAuthorities;

  constructor(tls: ServerTls) {
    const known = new KnownAuthorities();
    super(
      {
        requestCert: true,
        rejectUnauthorized: false,
        handshakeTimeout: connectTimeoutMs,
        settings: { initialWindowSize: streamWindowBytes, maxConcurrentStreams: maxStreamsCount },
        // The one step of the handshake that a server is asked about before the client's certificate is there.
        ALPNCallback(this: unknown, { protocols }: { readonly protocols: readonly string[] }) {
          if (this instanceof TLSSocket) refuseStrangers(this, known);
          return protocols.includes("h2") ? "h2" : undefined;
        },
      },
      toContext(tls),
    );
    this.#known = known;
    known.set(tls);
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }

  reload(tls: ServerTls): void {
    this.#known.set(tls);
    this.updateSecureContextOptions(toContext(tls));
  }
}

/** Looks in the server's place, which hands on to HTTP/2 what it has seen: a stranger's connection is never handed on. */
function refuseStrangers(socket: TLSSocket, known: KnownAuthorities): void {
  const servers = socket.listeners("secure");
  socket.removeAllListeners("secure");
  socket.once("secure", () => {
    const certificate = socket.getPeerX509Certificate();
    if (certificate && !known.signed(certificate)) return void socket.destroy();
    for (const listener of servers) listener.call(socket);
  });
}

/** Credentials of a TLS server. */
export interface TlsServerCredentials {
  readonly credentials: ServerCredentials;
  /** Shows another certificate to connections made from now on. */
  reload(tls: ServerTls): void;
}

/** Credentials for `startGrpcServer` on a TLS port. */
export function createServerCredentials(tls: ServerTls): TlsServerCredentials {
  const credentials = new OptionalClientCredentials(tls);
  return { credentials, reload: (next) => credentials.reload(next) };
}
