import { X509Certificate } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { Pairing } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { createCertificateRequest } from "../../shared/identity/keys.ts";
import { signLapsedProof } from "../../shared/identity/lapsed-proof.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import type { Client } from "../../shared/rpc/service.ts";
import type { HeldIdentity } from "./held-identity.ts";
import type { NodeIdentity } from "./identity.ts";

/** Why the last dial makes a node ask before the next one. */
export type DialDoubt = "certificate_expired" | "clock";

/** Where and how the gateway is asked. */
export interface MendOptions {
  readonly address: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What the last dial ended with, when that leaves a doubt. */
  readonly doubt: DialDoubt | undefined;
}

/** A clock that is wrong by more can judge no certificate. */
const maxClockOffMs = 3_600_000;
const askTimeoutMs = 15_000;

/** The doubt that the end of a dial leaves, if any. */
export function doubtAfter(fault: Fault): DialDoubt | undefined {
  if (fault.code === "IDENTITY_EXPIRED" && fault.retryable) return "certificate_expired";
  const isAboutTime = fault.code === "UNAUTHENTICATED" && isTimeReason(fault.details["reason"]);
  return isAboutTime ? "clock" : undefined;
}

function isTimeReason(reason: unknown): boolean {
  return reason === "certificate_not_valid_now" || reason === "clock_wrong";
}

/**
 * Sees to it that a dial can succeed: with a certificate in time there is nothing to do. Otherwise the gateway, proved by
 * its pin, is asked for its time. A clock that is off by more than an hour is the fault, `UNAUTHENTICATED` with
 * `details.reason` = `clock_wrong` and `details.offSeconds` (positive: this machine is ahead). A certificate that has
 * lapsed is renewed with the proof of its key; `IDENTITY_EXPIRED`, not retryable, once it is too late.
 */
export async function mendBeforeDial(held: HeldIdentity, options: MendOptions): Promise<void> {
  const { clock, doubt } = options;
  const identity = held.current;
  const now = clock.now();
  const inTime = now >= identity.certificateBeganAt && now < identity.certificateExpiresAt;
  if (inTime && doubt === undefined) return;
  await withGateway(identity, options, async (pairing) => {
    const { nonce, gatewayNow } = await askTime(pairing, options);
    const isLapsed =
      clock.now() >= identity.certificateExpiresAt || gatewayNow >= identity.certificateExpiresAt;
    if (isLapsed || doubt === "certificate_expired") await renewByProof(pairing, held, { ...options, nonce });
  });
}

/** Renews a certificate that no handshake accepts any more, at once. Faults are those of `mendBeforeDial`. */
export async function renewLapsedAt(
  held: HeldIdentity,
  options: Omit<MendOptions, "doubt">,
): Promise<Uint8Array> {
  return await withGateway(held.current, options, async (pairing) => {
    const { nonce } = await askTime(pairing, options);
    return await askWithProof(pairing, held.current, { ...options, nonce });
  });
}

/** Where and how the gateway is asked, when nothing is to be mended. */
export type Ask = Omit<MendOptions, "doubt">;

async function withGateway<T>(
  { pins }: NodeIdentity,
  { address, clock }: Ask,
  work: (pairing: Client<typeof Pairing>) => Promise<T>,
): Promise<T> {
  await using client = openGrpcClient({
    address,
    // Nothing is shown: the handshake takes no lapsed certificate. Whether the times fit is what is asked here.
    security: () => ({ verifyPeer: (chain) => judgeGateway({ pins, clock, atAnyTime: true }, chain) }),
    clock,
  });
  return await work(client.client(Pairing));
}

/** What the gateway at an address says of the time. */
export interface AskedTime {
  readonly nonce: Uint8Array;
  /** The gateway's time, in milliseconds since 1970. */
  readonly gatewayNow: number;
  /** How far this machine's clock is ahead of it, in milliseconds. */
  readonly offMs: number;
}

/** Asks the gateway at an address for its time; it has to prove its pin. The clock is judged by whoever asks. */
export async function askGatewayTime(identity: NodeIdentity, options: Ask): Promise<AskedTime> {
  return await withGateway(identity, options, (pairing) => measureTime(pairing, options));
}

async function askTime(pairing: Client<typeof Pairing>, options: Ask): Promise<AskedTime> {
  const asked = await measureTime(pairing, options);
  const fault = judgeClock(asked);
  if (fault) throw fault;
  return asked;
}

async function measureTime(pairing: Client<typeof Pairing>, { clock, signal }: Ask): Promise<AskedTime> {
  const askedAt = clock.now();
  const { nonce, nowMs } = await pairing.challenge({}, { signal, deadlineMs: askTimeoutMs });
  const gatewayNow = Number(nowMs);
  // The answer was made somewhere between asking and hearing.
  return { nonce, gatewayNow, offMs: (askedAt + clock.now()) / 2 - gatewayNow };
}

/** The fault of a clock that can judge no certificate, or undefined for one that is good enough. */
export function judgeClock({
  offMs,
  gatewayNow,
}: Pick<AskedTime, "offMs" | "gatewayNow">): Fault | undefined {
  return Math.abs(offMs) > maxClockOffMs ? clockFault(offMs, gatewayNow) : undefined;
}

function clockFault(offMs: number, gatewayNow: number): Fault {
  const offSeconds = Math.round(offMs / 1000);
  const there = new Date(gatewayNow).toISOString();
  return new Fault(
    "UNAUTHENTICATED",
    `the clock of this machine is ${Math.abs(offSeconds)} s ${offSeconds > 0 ? "ahead of" : "behind"} the gateway's, where it is ${there}`,
    {
      retryable: true,
      details: { reason: "clock_wrong", offSeconds },
      hint: "set the clock of this machine; the link comes back by itself",
    },
  );
}

type Proving = Ask & { readonly nonce: Uint8Array };

async function renewByProof(
  pairing: Client<typeof Pairing>,
  held: HeldIdentity,
  proving: Proving,
): Promise<void> {
  await held.renewed(await askWithProof(pairing, held.current, proving));
}

async function askWithProof(
  pairing: Client<typeof Pairing>,
  { nodeId, pin, keyPem, certificatePem }: NodeIdentity,
  { nonce, signal }: Proving,
): Promise<Uint8Array> {
  const certificateRequest = await createCertificateRequest(keyPem);
  const certificate = new Uint8Array(new X509Certificate(certificatePem).raw);
  const signature = signLapsedProof({ nonce, request: certificateRequest, certificate, pin }, keyPem);
  const answer = await pairing.renewLapsed(
    { nodeId, nonce, certificateRequest, certificate, signature },
    { signal, deadlineMs: askTimeoutMs },
  );
  return answer.certificate;
}
