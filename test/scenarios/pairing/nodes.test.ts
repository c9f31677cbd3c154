import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import type { ServerTls } from "../../../gateway/pairing/server-certificate.ts";
import { holdIdentity } from "../../../node-agent/pairing/held-identity.ts";
import { loadIdentity, type NodeIdentity } from "../../../node-agent/pairing/identity.ts";
import { leaveGateway } from "../../../node-agent/pairing/leave.ts";
import { renewalTime, startRenewal, type RenewalState } from "../../../node-agent/pairing/renew.ts";
import { dialTls } from "../../../node-agent/pairing/tls.ts";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { judgeGateway } from "../../../shared/identity/gateway-peer.ts";
import { createCertificateRequest, createKeyPem } from "../../../shared/identity/keys.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { joinAs, startPairingGateway, type PairingGateway } from "./pairing-gateway.ts";

const dayMs = 86_400_000;

function rawOf(identity: NodeIdentity): Uint8Array {
  return new X509Certificate(identity.certificatePem).raw;
}

async function pairOne(gateway: PairingGateway, alias: string): Promise<NodeIdentity> {
  await using home = await makeTempFolder();
  return (await joinAs((await gateway.pairing.invite({ alias })).code, home)).identity;
}

test("a node is found by alias, id or the beginning of its id", async () => {
  await using gateway = await startPairingGateway();
  const { nodes } = gateway.pairing;
  expect(await faultOf(nodes.resolve("devbox"))).toMatchObject({
    code: "NOT_FOUND",
    hint: "fairlead invite",
  });
  const { nodeId } = await pairOne(gateway, "devbox");
  for (const reference of ["devbox", nodeId, nodeId.slice(0, 6)]) {
    expect((await nodes.resolve(reference)).id).toBe(nodeId);
  }
  for (const reference of [nodeId.slice(0, 5), "%", "", `${nodeId}0`, "DEVBOX"]) {
    expect(await faultOf(nodes.resolve(reference))).toMatchObject({ code: "NOT_FOUND" });
  }
  expect(await faultOf(nodes.resolve("devbx"))).toMatchObject({ details: { nearest: "devbox" } });
});

test("the beginning of two ids is refused with both", async () => {
  await using gateway = await startPairingGateway();
  const first = await pairOne(gateway, "first");
  const id = `${first.nodeId.slice(0, 19)}${first.nodeId.endsWith("0") ? "1" : "0"}`;
  const row = await gateway.store.db.selectFrom("nodes").selectAll().executeTakeFirstOrThrow();
  await gateway.store.db
    .insertInto("nodes")
    .values({ ...row, id, alias: "second", key_digest: "x" })
    .execute();
  const fault = await faultOf(gateway.pairing.nodes.resolve(id.slice(0, 12)));
  expect(fault).toMatchObject({
    code: "INVALID_ARGUMENT",
    details: { candidates: [first.nodeId, id].toSorted() },
  });
});

test("a renamed node keeps everything but its alias, and two renames to one alias end with one refusal", async () => {
  await using gateway = await startPairingGateway();
  const { nodes } = gateway.pairing;
  const first = await pairOne(gateway, "first");
  const second = await pairOne(gateway, "second");
  const before = await nodes.resolve("first");
  expect(await nodes.rename(first.nodeId, "other")).toEqual({ ...before, alias: "other" });
  expect(await faultOf(nodes.resolve("first"))).toMatchObject({ code: "NOT_FOUND" });
  expect(await gateway.pairing.identify(rawOf(first))).toMatchObject({
    nodeId: first.nodeId,
    alias: "other",
  });
  expect(await faultOf(nodes.rename(first.nodeId, "Not-An-Alias"))).toMatchObject({
    code: "INVALID_ARGUMENT",
  });
  const both = await Promise.allSettled([
    nodes.rename(first.nodeId, "same"),
    nodes.rename(second.nodeId, "same"),
  ]);
  expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  const refused = both.find((result) => result.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "ALREADY_EXISTS", details: { field: "alias" } });
});

test("a revoked node is listed last, is refused wherever it shows its certificate, and frees its alias", async () => {
  await using gateway = await startPairingGateway();
  const { nodes } = gateway.pairing;
  const gone = await pairOne(gateway, "a-box");
  await pairOne(gateway, "b-box");
  expect(await nodes.revoke(gone.nodeId)).toMatchObject({ already: false, node: { alias: "a-box" } });
  const again = await nodes.revoke((await nodes.resolve("a-box")).id);
  expect(again.already).toBe(true);
  expect((await nodes.list()).map((node) => node.alias)).toEqual(["b-box", "a-box"]);
  expect(await faultOf(gateway.pairing.identify(rawOf(gone)))).toMatchObject({
    code: "IDENTITY_REVOKED",
    details: { nodeId: gone.nodeId, revokedAt: again.node.revokedAt },
  });
  expect(await faultOf(nodes.rename(gone.nodeId, "c-box"))).toMatchObject({ code: "IDENTITY_REVOKED" });
  const heir = await pairOne(gateway, "a-box");
  expect(heir.nodeId).not.toBe(gone.nodeId);
  expect((await nodes.resolve("a-box")).id).toBe(heir.nodeId);
});

test("a key that was revoked is not enrolled again; a new key is", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({})).code, home);
  await gateway.pairing.nodes.revoke(identity.nodeId);
  const { code } = await gateway.pairing.invite({});
  expect(await faultOf(joinAs(code, home, { existing: "same_key" }))).toMatchObject({
    code: "IDENTITY_REVOKED",
  });
  expect(await gateway.usesLeft()).toEqual([0, 1]);
  expect((await joinAs(code, home, { existing: "new_key" })).identity.nodeId).not.toBe(identity.nodeId);
});

test("who shows no certificate, a stranger's or that of a node that is gone is told apart", async () => {
  await using gateway = await startPairingGateway();
  await using other = await startPairingGateway();
  const stranger = await pairOne(other, "devbox");
  for (const raw of [undefined, new Uint8Array(3), rawOf(stranger)]) {
    expect(await faultOf(gateway.pairing.identify(raw))).toMatchObject({ code: "UNAUTHENTICATED" });
  }
  const forgotten = await pairOne(gateway, "devbox");
  await gateway.store.db.deleteFrom("nodes").execute();
  expect(await faultOf(gateway.pairing.identify(rawOf(forgotten)))).toMatchObject({
    code: "IDENTITY_UNKNOWN",
    retryable: false,
  });
});

test("an expired certificate is told from one that lapsed for so long that it cannot be renewed", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  const identity = await pairOne(gateway, "devbox");
  await clock.advance(7 * dayMs - 6 * 60_000);
  await gateway.pairing.identify(rawOf(identity));
  await clock.advance(dayMs);
  const expired = { code: "IDENTITY_EXPIRED", details: { nodeId: identity.nodeId } };
  expect(await faultOf(gateway.pairing.identify(rawOf(identity)))).toMatchObject({
    ...expired,
    retryable: true,
  });
  await clock.advance(90 * dayMs);
  expect(await faultOf(gateway.pairing.identify(rawOf(identity)))).toMatchObject({
    ...expired,
    retryable: false,
  });
});

test("a node renews over its own connection, for its own key alone", async () => {
  await using gateway = await startPairingGateway();
  const identity = await pairOne(gateway, "devbox");
  await using client = openGrpcClient({ address: gateway.address, security: () => dialTls(identity) });
  const pairing = client.client(Pairing);
  const { certificate } = await pairing.renew({
    certificateRequest: await createCertificateRequest(identity.keyPem),
  });
  const renewed = new X509Certificate(certificate);
  expect(renewed.serialNumber).not.toBe(new X509Certificate(identity.certificatePem).serialNumber);
  expect(await gateway.pairing.identify(renewed.raw)).toMatchObject({ nodeId: identity.nodeId });
  const foreign = await createCertificateRequest(await createKeyPem());
  expect(await faultOf(pairing.renew({ certificateRequest: foreign }))).toMatchObject({
    code: "UNAUTHENTICATED",
  });
  await gateway.pairing.nodes.revoke(identity.nodeId);
  const own = await createCertificateRequest(identity.keyPem);
  expect(await faultOf(pairing.renew({ certificateRequest: own }))).toMatchObject({
    code: "IDENTITY_REVOKED",
  });
});

test("without a certificate nothing but enrolling is answered", async () => {
  await using gateway = await startPairingGateway();
  await using client = openGrpcClient({
    address: gateway.address,
    security: () => ({ verifyPeer: () => undefined }),
  });
  const pairing = client.client(Pairing);
  const certificateRequest = await createCertificateRequest(await createKeyPem());
  expect(await faultOf(pairing.renew({ certificateRequest }))).toMatchObject({ code: "UNAUTHENTICATED" });
  expect(await faultOf(pairing.leave({}))).toMatchObject({ code: "UNAUTHENTICATED" });
});

test("a running renewal asks at two thirds of the time, keeps trying, and saves what it got", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({})).code, home);
  const states: RenewalState["kind"][] = [];
  const asked: number[] = [];
  let failures = 2;
  await using renewal = startRenewal({
    held: holdIdentity(home.join("node"), identity),
    clock,
    random: () => 0.5,
    onRenewed: () => undefined,
    onState: (state) => void states.push(state.kind),
    renew: async (certificateRequest, signal) => {
      asked.push(clock.now());
      if (failures-- > 0) throw new Error("no line");
      await using client = openGrpcClient({ address: gateway.address, security: () => dialTls(identity) });
      return await client.client(Pairing).renew({ certificateRequest }, { signal });
    },
  });
  const lifeMs = identity.certificateExpiresAt - identity.certificateBeganAt;
  expect(lifeMs).toBe(7 * dayMs);
  await clock.advance(renewalTime(identity, 0) - clock.now() - 1);
  expect(asked).toEqual([]);
  await clock.advance(renewalTime(identity, 0.5) - clock.now() + 1);
  await expect.poll(() => states.length).toBe(1);
  const age = ((asked[0] ?? 0) - identity.certificateBeganAt) / dayMs;
  expect(age).toBeGreaterThan(4 + 16 / 24);
  expect(age).toBeLessThan(5);
  expect(renewal.status().kind).toBe("failing");
  await expect.poll(async () => (await clock.advance(1_000), states.at(-1))).toBe("waiting");
  expect(states).toEqual(["failing", "failing", "waiting"]);
  const saved = await loadIdentity(home.join("node"));
  expect(saved.certificateExpiresAt).toBeGreaterThan(identity.certificateExpiresAt);
  expect(saved.keyPem).toBe(identity.keyPem);
  expect((await gateway.pairing.nodes.find(identity.nodeId))?.certificateExpiresAt).toBe(
    saved.certificateExpiresAt,
  );
});

test("a node that leaves is revoked, its link is ended, and its identity is gone from the disk", async () => {
  const left: string[] = [];
  await using gateway = await startPairingGateway({ onLeft: async (node) => void left.push(node.alias) });
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({ alias: "devbox" })).code, home);
  expect(await leaveGateway({ dir: home.join("node") })).toEqual({ nodeId: identity.nodeId, told: true });
  expect(left).toEqual(["devbox"]);
  expect((await gateway.pairing.nodes.find(identity.nodeId))?.revokedAt).toBeDefined();
  expect(await home.entries()).toEqual(["node"]);
});

test("a gateway that runs for a year shows a new server certificate a month before the old one ends", async () => {
  const clock = new ManualClock(Date.now());
  const shown: ServerTls[] = [];
  await using gateway = await startPairingGateway({
    clock,
    onServerCertificate: (tls) => void shown.push(tls),
  });
  const first = new X509Certificate(gateway.pairing.tls.certificatePem);
  for (let day = 0; day < 335; day += 1) await clock.advance(dayMs);
  expect(shown).toEqual([]);
  await expect.poll(async () => (await clock.advance(dayMs), shown.length)).toBe(1);
  const [tls] = shown;
  const next = new X509Certificate(tls?.certificatePem ?? "");
  const authority = new X509Certificate(tls?.authorityPem ?? "");
  expect(next.publicKey.equals(first.publicKey)).toBe(false);
  expect(clock.now()).toBeLessThan(first.validToDate.getTime());
  expect(judgeGateway({ pins: [gateway.pairing.pin], clock }, [next.raw, authority.raw])).toBeUndefined();
});
