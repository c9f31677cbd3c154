import { X509Certificate } from "node:crypto";
import { expect } from "vitest";
import { isFault } from "../../../shared/fault/fault.ts";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { parseJoinCode } from "../../../shared/identity/join-code.ts";
import { createCertificateRequest, createKeyPem } from "../../../shared/identity/keys.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";

const rounds = 200;

const said = {
  wishedAlias: "",
  hostName: "h",
  platform: "linux",
  agentVersion: "1",
  workspaces: [],
  protocolMin: 3,
  protocolMax: 3,
};

interface Machine {
  readonly keyPem: string;
  readonly nodeId: string;
  readonly certificate: Uint8Array;
}

function open(gateway: PairingGateway, machine?: Machine): GrpcClient {
  const shown = machine
    ? { keyPem: machine.keyPem, certificatePem: new X509Certificate(machine.certificate).toString() }
    : {};
  return openGrpcClient({
    address: gateway.address,
    security: () => ({ ...shown, verifyPeer: () => undefined }),
  });
}

/** Enrols with a code of its own; with one that requires approval it waits for the decision. */
async function enrol(
  gateway: PairingGateway,
  client: GrpcClient,
  { keyPem, requireApproval }: { readonly keyPem: string; readonly requireApproval: boolean },
): Promise<Machine> {
  const { secret } = parseJoinCode((await gateway.pairing.invite({ requireApproval })).code);
  const certificateRequest = await createCertificateRequest(keyPem);
  const answer = await client
    .client(Pairing)
    .enrol({ ...said, secret, certificateRequest, waitMs: requireApproval ? 20_000 : 0 });
  return { keyPem, nodeId: answer.nodeId, certificate: answer.certificate };
}

/** A certificate, or undefined for a machine that was told of its revocation; anything else is a failure. */
async function unlessRevoked(asked: Promise<Uint8Array>): Promise<Uint8Array | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isFault(error, "IDENTITY_REVOKED")) return undefined;
    throw error;
  }
}

async function expectRefused(gateway: PairingGateway, certificates: readonly Uint8Array[]): Promise<void> {
  for (const certificate of certificates)
    expect(await faultOf(gateway.pairing.identify(certificate))).toMatchObject({ code: "IDENTITY_REVOKED" });
}

/** The two sides of a race begin at another distance each time. */
async function revokeAfter(gateway: PairingGateway, nodeId: string, ms: number): Promise<void> {
  if (ms > 0) await systemClock.sleep(ms);
  await gateway.pairing.nodes.revoke(nodeId);
}

proves(
  "pairing.revoke-races-renewal",
  "of a revocation and a renewal at the same moment no certificate comes out that counts",
  { timeout: 300_000 },
  async () => {
    await using gateway = await startPairingGateway();
    await using nobody = open(gateway);
    const outcomes = new Set<boolean>();
    for (let round = 0; round < rounds; round += 1) {
      const machine = await enrol(gateway, nobody, { keyPem: await createKeyPem(), requireApproval: false });
      await using client = open(gateway, machine);
      const pairing = client.client(Pairing);
      const certificateRequest = await createCertificateRequest(machine.keyPem);
      const renew = async (): Promise<Uint8Array> =>
        (await pairing.renew({ certificateRequest })).certificate;
      // The connection stands already, so that the two meet.
      await renew();
      const [renewed] = await Promise.all([
        unlessRevoked(renew()),
        revokeAfter(gateway, machine.nodeId, round % 8),
      ]);
      outcomes.add(renewed !== undefined);
      await expectRefused(gateway, renewed ? [machine.certificate, renewed] : [machine.certificate]);
      expect(await unlessRevoked(renew())).toBeUndefined();
    }
    expect(outcomes).toEqual(new Set([true, false]));
  },
);

proves(
  "pairing.revoke-races-renewal",
  "of a revocation and an approval at the same moment no certificate comes out that counts",
  { timeout: 300_000 },
  async () => {
    await using gateway = await startPairingGateway();
    await using nobody = open(gateway);
    const outcomes = new Set<boolean>();
    for (let round = 0; round < rounds; round += 1) {
      const keyPem = await createKeyPem();
      const machine = await enrol(gateway, nobody, { keyPem, requireApproval: false });
      const again = enrol(gateway, nobody, { keyPem, requireApproval: true });
      const answered = unlessRevoked(again.then(({ certificate }) => certificate));
      const { enrolments } = gateway.pairing;
      await expect.poll(async () => (await enrolments.list()).length, { interval: 2 }).toBe(1);
      const id = (await enrolments.list())[0]?.id ?? "";
      const [approved] = await Promise.allSettled([
        enrolments.approve(id, {}),
        revokeAfter(gateway, machine.nodeId, round % 50),
      ]);
      if (approved.status === "rejected") expect(approved.reason).toMatchObject({ code: "IDENTITY_REVOKED" });
      if (approved.status === "rejected") await enrolments.reject(id).catch(() => undefined);
      const got = await answered.catch((error: unknown) => {
        expect(error).toMatchObject({ code: "ENROLMENT_REJECTED" });
        return undefined;
      });
      outcomes.add(got !== undefined);
      await expectRefused(gateway, got ? [machine.certificate, got] : [machine.certificate]);
    }
    expect(outcomes).toEqual(new Set([true, false]));
  },
);
