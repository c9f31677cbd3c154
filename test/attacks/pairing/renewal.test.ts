import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { issueNodeCertificate } from "../../../gateway/pairing/issue.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { holdIdentity } from "../../../node-agent/pairing/held-identity.ts";
import type { NodeIdentity } from "../../../node-agent/pairing/identity.ts";
import { mendBeforeDial } from "../../../node-agent/pairing/mend-before-dial.ts";
import { dialTls } from "../../../node-agent/pairing/tls.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { createCertificateRequest, createKeyPem, publicKeyOf } from "../../../shared/identity/keys.ts";
import { signLapsedProof } from "../../../shared/identity/lapsed-proof.ts";
import type { Pin } from "../../../shared/identity/pin.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { joinAs, startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { requestNaming } from "../../support/naming-request.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeLimits } from "../../support/write-limits.ts";

const patience = { timeout: 120_000 };
const dayMs = 86_400_000;

async function pairOne(gateway: PairingGateway): Promise<NodeIdentity> {
  await using home = await makeTempFolder();
  return (await joinAs((await gateway.pairing.invite({})).code, home)).identity;
}

function rawOf({ certificatePem }: NodeIdentity): Uint8Array {
  return new Uint8Array(new X509Certificate(certificatePem).raw);
}

/** A client that shows a node's certificate, or none, and believes anyone. */
function openAs(gateway: PairingGateway, identity?: NodeIdentity): GrpcClient {
  const shown = identity ? { keyPem: identity.keyPem, certificatePem: identity.certificatePem } : {};
  return openGrpcClient({
    address: gateway.address,
    security: () => ({ ...shown, verifyPeer: () => undefined }),
  });
}

interface Proof {
  readonly identity: NodeIdentity;
  /** Signs; the node's own key by default. */
  readonly keyPem?: string;
  readonly pin?: Pin;
  readonly nonce: Uint8Array;
  readonly nodeId?: string;
  readonly request?: Uint8Array;
}

/** A renewal of a lapsed certificate, as an honest node would ask, but for what is said otherwise. */
async function lapsedRequest(proof: Proof) {
  const { identity, nonce } = proof;
  const certificate = rawOf(identity);
  const request = proof.request ?? (await createCertificateRequest(identity.keyPem));
  const signature = signLapsedProof(
    { nonce, request, certificate, pin: proof.pin ?? identity.pin },
    proof.keyPem ?? identity.keyPem,
  );
  return {
    certificate,
    certificateRequest: request,
    nonce,
    signature,
    nodeId: proof.nodeId ?? identity.nodeId,
  };
}

const refused = { code: "UNAUTHENTICATED" };

proves(
  "pairing.renewal-proves-key",
  "a renewal with another key, of another node's name, or replayed is refused, and the certificate in use stays good",
  async () => {
    const clock = new ManualClock(Date.now());
    await using gateway = await startPairingGateway({ clock });
    await using other = await startPairingGateway({ clock });
    const node = await pairOne(gateway);
    const victim = await pairOne(gateway);
    await using linked = openAs(gateway, node);
    await using nobody = openAs(gateway);
    const own = await createCertificateRequest(node.keyPem);
    const renew = (request: object, client: GrpcClient = linked): Promise<Fault> =>
      faultOf(client.client(Pairing).renew(request));

    // Over the link's certificate.
    expect(
      await renew({ certificateRequest: await createCertificateRequest(await createKeyPem()) }),
    ).toMatchObject(refused);
    expect(await renew({ certificateRequest: await createCertificateRequest(victim.keyPem) })).toMatchObject(
      refused,
    );
    expect(await renew({ certificateRequest: own, nodeId: victim.nodeId })).toMatchObject(refused);
    expect(
      await renew({ certificateRequest: await requestNaming(node.keyPem, victim.nodeId) }),
    ).toMatchObject(refused);
    // What was recorded of an earlier renewal is good for nobody else.
    await linked.client(Pairing).renew({ certificateRequest: own, nodeId: node.nodeId });
    await using stranger = openAs(gateway, victim);
    for (const client of [nobody, stranger])
      expect(await renew({ certificateRequest: own, nodeId: node.nodeId }, client)).toMatchObject(refused);

    // With the proof of a lapsed one.
    const { renewLapsed, challenge } = nobody.client(Pairing);
    const nonce = async (): Promise<Uint8Array> => (await challenge({})).nonce;
    await using elsewhere = openAs(other);
    const wrong: readonly Proof[] = [
      { identity: node, nonce: await nonce(), keyPem: await createKeyPem() },
      { identity: victim, nonce: await nonce(), keyPem: node.keyPem },
      { identity: node, nonce: await nonce(), nodeId: victim.nodeId },
      { identity: node, nonce: await nonce(), pin: other.pairing.pin },
      { identity: node, nonce: await nonce(), request: await createCertificateRequest(victim.keyPem) },
      { identity: node, nonce: await nonce(), request: await requestNaming(node.keyPem, victim.nodeId) },
      { identity: node, nonce: (await elsewhere.client(Pairing).challenge({})).nonce },
      { identity: node, nonce: new Uint8Array(56) },
      { identity: node, nonce: new Uint8Array() },
    ];
    for (const proof of wrong)
      expect(await faultOf(renewLapsed(await lapsedRequest(proof)))).toMatchObject(refused);
    const good = await lapsedRequest({ identity: node, nonce: await nonce() });
    const both = await Promise.allSettled([renewLapsed(good), renewLapsed(good)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(await faultOf(renewLapsed(good))).toMatchObject(refused);
    expect(await faultOf(renewLapsed({ ...good, nonce: await nonce() }))).toMatchObject(refused);
    const stale = await lapsedRequest({ identity: node, nonce: await nonce() });
    await clock.advance(60_000);
    expect(await faultOf(renewLapsed(stale))).toMatchObject(refused);

    for (const identity of [node, victim])
      expect(await gateway.pairing.identify(rawOf(identity))).toMatchObject({ nodeId: identity.nodeId });
  },
);

proves(
  "pairing.lapsed-and-revoked",
  "a node that was revoked while its certificate was lapsed gets none at any day of the ninety",
  patience,
  async () => {
    await using gateway = await startPairingGateway();
    const node = await pairOne(gateway);
    const { keyPem, certificatePem } = await readAuthority(gateway);
    await gateway.pairing.nodes.revoke(node.nodeId);
    await using nobody = openAs(gateway);
    const { renewLapsed, challenge } = nobody.client(Pairing);
    for (let days = 0; days <= 90; days += 1) {
      const { pem } = await issueNodeCertificate(
        { keyPem, certificatePem },
        { id: node.nodeId, publicKey: publicKeyOf(node.keyPem), now: Date.now() - (7 + days) * dayMs },
      );
      const { nonce } = await challenge({});
      const request = await lapsedRequest({ identity: { ...node, certificatePem: pem }, nonce });
      expect(await faultOf(renewLapsed(request))).toMatchObject({
        code: "IDENTITY_REVOKED",
        retryable: false,
      });
    }
  },
);

proves(
  "pairing.link-ends-with-certificate",
  "a link is closed within a second of its certificate's end, and only a renewal brings the node back",
  patience,
  async () => {
    await using folder = await makeTempFolder();
    await using home = await makeTempFolder();
    await using gateway = await startGateway({
      home: await writeLimits(folder.path, { certificateMs: 6_000 }),
    });
    const { identity } = await joinAs(await inviteCode(gateway, ["--name", "devbox"]), home);
    const held = holdIdentity(home.join("node"), identity);
    const ends: { readonly fault: Fault; readonly at: number }[] = [];
    // A node that does not renew.
    await using link = startLink({
      addresses: identity.addresses,
      loadTls: () => dialTls(held.current),
      services: [],
      onFault: (error) => void ends.push({ fault: error as Fault, at: systemClock.now() }),
    });
    await expect.poll(() => link.status().state).toBe("online");
    await expect.poll(() => ends.length, { timeout: 20_000 }).toBeGreaterThan(0);
    const [first] = ends;
    expect(first?.fault).toMatchObject({ code: "IDENTITY_EXPIRED", retryable: true });
    const lateMs = (first?.at ?? 0) - identity.certificateExpiresAt;
    expect(lateMs).toBeGreaterThanOrEqual(0);
    expect(lateMs).toBeLessThan(1_000);
    await expect.poll(() => ends.length, { timeout: 20_000 }).toBeGreaterThan(3);
    for (const { fault } of ends) expect(fault).toMatchObject({ code: "IDENTITY_EXPIRED", retryable: true });
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({ reason: "certificate_expired" });
    expect(link.status().state).not.toBe("online");
    await mendBeforeDial(held, {
      address: gateway.link,
      clock: systemClock,
      signal: AbortSignal.timeout(10_000),
      doubt: "certificate_expired",
    });
    await expect.poll(() => link.status().state, { timeout: 35_000 }).toBe("online");
  },
);

async function readAuthority({ dir }: PairingGateway): Promise<{ keyPem: string; certificatePem: string }> {
  return {
    keyPem: await readFile(`${dir}/authority/key.pem`, "utf8"),
    certificatePem: await readFile(`${dir}/authority/cert.pem`, "utf8"),
  };
}
