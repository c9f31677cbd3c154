import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { parseJoinCode } from "../../../shared/identity/join-code.ts";
import {
  createCertificateRequest,
  createKeyPem,
  publicKeyOf,
  signingAlgorithm,
  signingKeyFrom,
  verifyingKeyFrom,
} from "../../../shared/identity/keys.ts";
import { nodeIdOf, nodeUri } from "../../../shared/identity/node-name.ts";
import { pinOfCertificate, pinOfPublicKey } from "../../../shared/identity/pin.ts";
import { loadX509 } from "../../../shared/identity/x509.ts";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { joinAs, startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** A client that shows no certificate and believes anyone. */
function openAsNobody(gateway: PairingGateway): GrpcClient {
  return openGrpcClient({ address: gateway.address, security: () => ({ verifyPeer: () => undefined }) });
}

const said = {
  wishedAlias: "",
  hostName: "h",
  platform: "linux",
  agentVersion: "1",
  workspaces: [],
  protocolMin: 3,
  protocolMax: 3,
};

/** A request that asks for everything that a machine must not get. */
async function greedyRequest(keyPem: string, victim: string): Promise<Uint8Array> {
  const x509 = await loadX509();
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    keys: {
      privateKey: await signingKeyFrom(keyPem),
      publicKey: await verifyingKeyFrom(publicKeyOf(keyPem)),
    },
    name: `CN=${victim}, O=admins`,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 5, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      new x509.ExtendedKeyUsageExtension([
        x509.ExtendedKeyUsage.serverAuth,
        x509.ExtendedKeyUsage.codeSigning,
      ]),
      new x509.SubjectAlternativeNameExtension([
        { type: "url", value: nodeUri(victim) },
        { type: "dns", value: "gateway.example" },
        { type: "ip", value: "127.0.0.1" },
      ]),
    ],
  });
  return new Uint8Array(request.rawData);
}

proves(
  "pairing.certificate-names-one-node",
  "whatever a key request asks for, it yields a client certificate for a new id, and only its key is taken",
  async () => {
    await using gateway = await startPairingGateway();
    await using home = await makeTempFolder();
    const victim = await joinAs((await gateway.pairing.invite({ alias: "victim" })).code, home);
    await using client = openAsNobody(gateway);
    for (const asked of [victim.identity.nodeId, "victim", "gateway.example"]) {
      const { secret } = parseJoinCode((await gateway.pairing.invite({})).code);
      const keyPem = await createKeyPem();
      const certificateRequest = await greedyRequest(keyPem, asked);
      const answer = await client.client(Pairing).enrol({ ...said, secret, certificateRequest });
      const certificate = new X509Certificate(answer.certificate);
      expect(answer.nodeId).not.toBe(victim.identity.nodeId);
      expect(nodeIdOf(certificate)).toBe(answer.nodeId);
      expect(certificate.subject).toBe(`CN=${answer.nodeId}`);
      expect(certificate.subjectAltName).toBe(`URI:${nodeUri(answer.nodeId)}`);
      expect(certificate.ca).toBe(false);
      expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
      expect(pinOfCertificate(certificate)).toBe(pinOfPublicKey(publicKeyOf(keyPem)));
      expect(Buffer.from(answer.certificate).includes("gateway.example")).toBe(false);
      expect(await gateway.pairing.identify(answer.certificate)).toMatchObject({ nodeId: answer.nodeId });
    }
    expect(await gateway.pairing.nodes.resolve("victim")).toMatchObject({ id: victim.identity.nodeId });
  },
);

test("what is no key request, or not signed by its own P-256 key, is refused and costs no use", async () => {
  await using gateway = await startPairingGateway();
  await using client = openAsNobody(gateway);
  const { secret } = parseJoinCode((await gateway.pairing.invite({})).code);
  const good = await createCertificateRequest(await createKeyPem());
  const forged = Uint8Array.from(good);
  forged[forged.length - 1] = (forged.at(-1) ?? 0) ^ 1;
  const x509 = await loadX509();
  const p384 = { name: "ECDSA", namedCurve: "P-384", hash: "SHA-384" };
  const keys = await crypto.subtle.generateKey(p384, true, ["sign", "verify"]);
  const other = await x509.Pkcs10CertificateRequestGenerator.create({
    keys,
    name: "CN=x",
    signingAlgorithm: p384,
  });
  const wrong = [
    new Uint8Array(),
    new Uint8Array(100),
    good.subarray(0, -5),
    forged,
    new Uint8Array(10_000),
    new Uint8Array(other.rawData),
  ];
  for (const certificateRequest of wrong) {
    expect(
      await faultOf(client.client(Pairing).enrol({ ...said, secret, certificateRequest })),
    ).toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "certificate_request" },
    });
  }
  const certificateRequest = good;
  expect(
    await faultOf(
      client.client(Pairing).enrol({ ...said, secret, certificateRequest, protocolMin: 9, protocolMax: 9 }),
    ),
  ).toMatchObject({ code: "VERSION_UNSUPPORTED" });
  expect(
    await faultOf(
      client.client(Pairing).enrol({ ...said, secret, certificateRequest, wishedAlias: "No Alias" }),
    ),
  ).toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "alias" } });
  expect(await gateway.usesLeft()).toEqual([1]);
  expect(await gateway.pairing.nodes.list()).toEqual([]);
});

proves(
  "pairing.code-uses-counted",
  "of ten machines at once, a code of three uses lets three in",
  async () => {
    await using gateway = await startPairingGateway();
    const { code } = await gateway.pairing.invite({ uses: 3 });
    const homes = await Promise.all(Array.from({ length: 10 }, () => makeTempFolder()));
    const joins = await Promise.allSettled(homes.map((home) => joinAs(code, home)));
    const refused = joins.filter((join) => join.status === "rejected").map(({ reason }) => reason as unknown);
    expect(refused).toHaveLength(7);
    for (const reason of refused)
      expect(reason).toMatchObject({ code: "JOIN_CODE_INVALID", details: { reason: "used" } });
    expect(await gateway.pairing.nodes.list()).toHaveLength(3);
    await Promise.all(homes.map((home) => home[Symbol.asyncDispose]()));
  },
);

test("of a hundred machines at once, a code of one use lets one in", { timeout: 120_000 }, async () => {
  await using gateway = await startPairingGateway();
  await using client = openAsNobody(gateway);
  const { secret } = parseJoinCode((await gateway.pairing.invite({ alias: "only" })).code);
  const requests = await Promise.all(
    Array.from({ length: 100 }, async () => await createCertificateRequest(await createKeyPem())),
  );
  const enrol = (certificateRequest: Uint8Array): Promise<unknown> =>
    client.client(Pairing).enrol({ ...said, secret, certificateRequest });
  const results = await Promise.allSettled(requests.map(enrol));
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  for (const result of results) {
    if (result.status === "rejected") expect(result.reason).toMatchObject({ details: { reason: "used" } });
  }
  expect(await gateway.pairing.nodes.list()).toMatchObject([{ alias: "only" }]);
});

test("a machine that asks twenty times at once is one node and costs one use", async () => {
  await using gateway = await startPairingGateway();
  await using client = openAsNobody(gateway);
  const { secret } = parseJoinCode((await gateway.pairing.invite({ uses: 5 })).code);
  const certificateRequest = await createCertificateRequest(await createKeyPem());
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => client.client(Pairing).enrol({ ...said, secret, certificateRequest })),
  );
  expect(new Set(answers.map(({ nodeId }) => nodeId)).size).toBe(1);
  expect(await gateway.pairing.nodes.list()).toHaveLength(1);
  expect(await gateway.usesLeft()).toEqual([4]);
});

test("what a machine calls itself is kept short and harmless", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const hostName = `\u001b]0;owned\u0007<b>${"x".repeat(10_000)}`;
  await joinAs((await gateway.pairing.invite({})).code, home, { hostName, platform: "\u202eniw" });
  const [node] = await gateway.pairing.nodes.list();
  expect(node?.hostName).toHaveLength(200);
  expect(node?.hostName.startsWith(String.raw`\u{1b}]0;owned\u{7}<b>xxx`)).toBe(true);
  expect(node?.platform).toBe(String.raw`\u{202e}niw`);
});
