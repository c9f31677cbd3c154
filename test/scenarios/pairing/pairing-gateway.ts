import { join } from "node:path";
import { createPairing, type GatewayPairing, type PairingOptions } from "../../../gateway/pairing/pairing.ts";
import { openStore, type Store } from "../../../gateway/store/store.ts";
import { joinGateway, type JoinOptions, type JoinOutcome } from "../../../node-agent/pairing/join.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { createServerCredentials } from "../../../shared/rpc/server-credentials.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

/** What `startPairingGateway` takes. */
export interface PairingGatewayOptions {
  /** The gateway's folder; one that lives as long as the gateway by default. */
  readonly dir?: string;
  /** Where it listens; a free port of 127.0.0.1 by default. */
  readonly listen?: string;
  /** What codes carry; where it listens by default. */
  readonly advertised?: readonly string[];
  readonly clock?: Clock;
  readonly onLeft?: NonNullable<PairingOptions["onLeft"]>;
  readonly limits?: NonNullable<PairingOptions["limits"]>;
  readonly onServerCertificate?: NonNullable<PairingOptions["onServerCertificate"]>;
}

/** The gateway's side of pairing with a real store and a real TLS port. */
export interface PairingGateway extends AsyncDisposable {
  readonly store: Store;
  readonly pairing: GatewayPairing;
  readonly dir: string;
  /** Where it listens. */
  readonly address: string;
  /** How many uses of a code's secret are left, by order of making. */
  usesLeft(): Promise<readonly number[]>;
}

/** Starts one; the caller disposes it. */
export async function startPairingGateway(options: PairingGatewayOptions = {}): Promise<PairingGateway> {
  const stack = new AsyncDisposableStack();
  const own = options.dir === undefined ? stack.use(await makeTempFolder()) : undefined;
  const dir = options.dir ?? join(own?.path ?? "", "gateway");
  const clock = options.clock ? { clock: options.clock } : {};
  const store = stack.use(await openStore({ dir, ...clock }));
  const addresses: string[] = [];
  const pairing = stack.use(
    await createPairing({
      store,
      home: dir,
      advertised: () => options.advertised ?? addresses,
      ...(options.onLeft ? { onLeft: options.onLeft } : {}),
      ...(options.limits ? { limits: options.limits } : {}),
      ...(options.onServerCertificate ? { onServerCertificate: options.onServerCertificate } : {}),
      ...clock,
    }),
  );
  const server = stack.use(
    await startGrpcServer({
      services: [pairing.service],
      address: options.listen ?? "127.0.0.1:0",
      credentials: createServerCredentials(pairing.tls).credentials,
    }),
  );
  addresses.push(server.address);
  return {
    store,
    pairing,
    dir,
    address: server.address,
    usesLeft: async () => {
      const rows = await store.db
        .selectFrom("join_codes")
        .select("uses_left")
        .orderBy("created_at")
        .execute();
      return rows.map((row) => row.uses_left);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Joins with what a machine would say. */
export function joinAs(
  code: string,
  home: TempFolder,
  more: Partial<JoinOptions> = {},
): Promise<JoinOutcome> {
  return joinGateway({
    code,
    dir: home.join("node"),
    hostName: "machine",
    platform: "linux",
    agentVersion: "0.1.0",
    ...more,
  });
}
