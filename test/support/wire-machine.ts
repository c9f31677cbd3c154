import type { Fault } from "../../shared/fault/fault.ts";
import { Pairing, type PairingEnrolResponse } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { parseJoinCode } from "../../shared/identity/join-code.ts";
import { createCertificateRequest, createKeyPem, publicKeyOf } from "../../shared/identity/keys.ts";
import { type Pin, pinOfPublicKey } from "../../shared/identity/pin.ts";
import { type GrpcClient, openGrpcClient } from "../../shared/rpc/grpc-client.ts";

/** What a machine says when it asks; everything has a default. */
export interface Said {
  readonly wishedAlias?: string;
  readonly hostName?: string;
  readonly platform?: string;
  readonly agentVersion?: string;
  readonly workspaces?: string[];
  readonly protocolMin?: number;
  readonly protocolMax?: number;
  readonly waitMs?: number;
  readonly continuesRequest?: string;
}

/** A machine that speaks the protocol itself and says what a test wants. */
export interface WireMachine extends AsyncDisposable {
  readonly keyPem: string;
  /** The pin of its key. */
  readonly pin: Pin;
  /** `Pairing.Enrol` with a code's secret. */
  ask(code: string, said?: Said): Promise<PairingEnrolResponse>;
}

/** A machine with a key of its own, or the one given, which asks at `address`. The caller disposes it. */
export async function openWireMachine(address: string, keyPem?: string): Promise<WireMachine> {
  const client = openGrpcClient({ address, security: () => ({ verifyPeer: () => undefined }) });
  return await machineOver(client, { keyPem, owns: true });
}

/** Like `openWireMachine`, over a connection that others use too and its owner ends. */
export function addWireMachine(client: GrpcClient): Promise<WireMachine> {
  return machineOver(client, { keyPem: undefined, owns: false });
}

async function machineOver(
  client: GrpcClient,
  of: { readonly keyPem: string | undefined; readonly owns: boolean },
): Promise<WireMachine> {
  const keyPem = of.keyPem ?? (await createKeyPem());
  const certificateRequest = await createCertificateRequest(keyPem);
  return {
    keyPem,
    pin: pinOfPublicKey(publicKeyOf(keyPem)),
    ask: (code, said = {}) =>
      client.client(Pairing).enrol({
        wishedAlias: "",
        hostName: "machine",
        platform: "linux",
        agentVersion: "0.1.0",
        workspaces: [],
        protocolMin: 3,
        protocolMax: 3,
        ...said,
        secret: parseJoinCode(code).secret,
        certificateRequest,
      }),
    [Symbol.asyncDispose]: async () => {
      if (of.owns) await client[Symbol.asyncDispose]();
    },
  };
}

/** A text among the details of a fault; fails when there is none of that name. */
export function detailOf(fault: Fault, name: string): string {
  const { [name]: value } = fault.details;
  if (typeof value === "string") return value;
  throw new Error(`the fault has no ${name}: ${fault.code} ${fault.message}`);
}
