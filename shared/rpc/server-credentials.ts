import type { SecureContextOptions } from "node:tls";
import { ServerCredentials } from "@grpc/grpc-js";
import { connectTimeoutMs, maxStreamsCount, streamWindowBytes } from "./limits.ts";

/** What a server shows, and whose certificates it believes. */
export interface ServerTls {
  readonly keyPem: string;
  /** The server's certificate and those above it. */
  readonly certificatePem: string;
  /** The authority whose client certificates count. */
  readonly authorityPem: string;
}

function toContext(tls: ServerTls): SecureContextOptions {
  return { key: tls.keyPem, cert: tls.certificatePem, ca: tls.authorityPem, minVersion: "TLSv1.3" };
}

/**
 * Takes clients with and without a certificate on one port: a certificate of another authority counts as none. Windows,
 * the stream limit and the handshake's time limit hold from the first SETTINGS.
 */
class OptionalClientCredentials extends ServerCredentials {
  constructor(tls: ServerTls) {
    super(
      {
        requestCert: true,
        rejectUnauthorized: false,
        handshakeTimeout: connectTimeoutMs,
        settings: { initialWindowSize: streamWindowBytes, maxConcurrentStreams: maxStreamsCount },
      },
      toContext(tls),
    );
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }

  reload(tls: ServerTls): void {
    this.updateSecureContextOptions(toContext(tls));
  }
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
