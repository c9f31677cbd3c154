import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import {
  createAuthority,
  issueNodeCertificate,
  issueServerCertificate,
} from "../../../gateway/pairing/issue.ts";
import { findIdentity } from "../../../node-agent/pairing/identity.ts";
import { exitStatus } from "../../../shared/fault/codes.ts";
import { createJoinSecret, formatJoinCode, parseJoinCode } from "../../../shared/identity/join-code.ts";
import { createKeyPem, publicKeyOf } from "../../../shared/identity/keys.ts";
import { pinOfPublicKey, type Pin } from "../../../shared/identity/pin.ts";
import { joinAs, startPairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { startRelay } from "../../support/relay.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

interface TlsPeer extends AsyncDisposable {
  readonly address: string;
  /** Everything that came after a handshake. */
  readonly received: Buffer[];
  readonly handshakes: number;
}

/** A TLS server that speaks HTTP/2 as far as the handshake goes, and writes down what it is told. */
async function startTlsPeer(shows: { readonly key: string; readonly cert: string }): Promise<TlsPeer> {
  const received: Buffer[] = [];
  let handshakes = 0;
  const server = createTlsServer({
    ...shows,
    ALPNProtocols: ["h2"],
    requestCert: true,
    rejectUnauthorized: false,
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    handshakes += 1;
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => void received.push(bytes));
  });
  server.on("tlsClientError", () => undefined);
  return {
    address: await listen(server),
    received,
    get handshakes() {
      return handshakes;
    },
    [Symbol.asyncDispose]: () => close(server),
  };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function close(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}

function codeFor(addresses: readonly string[], pin: Pin): string {
  return formatJoinCode({ purpose: "node", addresses, pin, secret: createJoinSecret() });
}

proves(
  "pairing.first-contact-wrong-peer",
  "a peer of another authority gets a handshake and nothing else, and the join says both fingerprints",
  async () => {
    await using home = await makeTempFolder();
    const authority = await createAuthority(Date.now());
    const server = await issueServerCertificate(authority, { hosts: ["127.0.0.1"], now: Date.now() });
    await using peer = await startTlsPeer({
      key: server.keyPem,
      cert: server.certificatePem + authority.certificatePem,
    });
    const expected = pinOfPublicKey(publicKeyOf(await createKeyPem()));
    const fault = await faultOf(joinAs(codeFor([peer.address], expected), home));
    expect(fault).toMatchObject({
      code: "PIN_MISMATCH",
      details: { expected, seen: pinOfPublicKey(publicKeyOf(authority.keyPem)) },
    });
    expect(exitStatus(fault.code, fault.retryable)).toBe(1);
    expect(peer.handshakes).toBe(1);
    expect(Buffer.concat(peer.received).toString("latin1")).toBe("");
    expect(await findIdentity(home.join("node"))).toBeUndefined();
  },
);

test("a copy of the right authority's certificate, one of its node certificates and none at all are no gateway", async () => {
  const now = Date.now();
  const authority = await createAuthority(now);
  const pin = pinOfPublicKey(publicKeyOf(authority.keyPem));
  const stranger = await createAuthority(now);
  const foreign = await issueServerCertificate(stranger, { hosts: ["127.0.0.1"], now });
  const nodeKey = await createKeyPem();
  const node = await issueNodeCertificate(authority, {
    id: "0".repeat(20),
    publicKey: publicKeyOf(nodeKey),
    now,
  });
  const lapsed = await issueServerCertificate(authority, {
    hosts: ["127.0.0.1"],
    now: now - 400 * 86_400_000,
  });
  const own = await issueServerCertificate(authority, { hosts: ["127.0.0.1"], now });
  const shown = [
    [{ key: foreign.keyPem, cert: foreign.certificatePem + authority.certificatePem }, "PIN_MISMATCH"],
    [{ key: own.keyPem, cert: own.certificatePem }, "PIN_MISMATCH"],
    [{ key: authority.keyPem, cert: authority.certificatePem }, "PIN_MISMATCH"],
    [{ key: nodeKey, cert: node.pem + authority.certificatePem }, "GATEWAY_UNREACHABLE"],
    [{ key: lapsed.keyPem, cert: lapsed.certificatePem + authority.certificatePem }, "GATEWAY_UNREACHABLE"],
  ] as const;
  for (const [certificates, code] of shown) {
    await using home = await makeTempFolder();
    await using peer = await startTlsPeer(certificates);
    expect(await faultOf(joinAs(codeFor([peer.address], pin), home))).toMatchObject({ code });
    expect(peer.handshakes).toBe(1);
    expect(peer.received).toEqual([]);
  }
});

test("a stranger at the first address does not keep a machine from its gateway at the second", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const authority = await createAuthority(Date.now());
  const server = await issueServerCertificate(authority, { hosts: ["127.0.0.1"], now: Date.now() });
  await using peer = await startTlsPeer({ key: server.keyPem, cert: server.certificatePem });
  const code = parseJoinCode((await gateway.pairing.invite({})).code);
  const both = formatJoinCode({ ...code, addresses: [peer.address, gateway.address] });
  await joinAs(both, home);
  expect(peer.received).toEqual([]);
});

test(
  "when nobody answers, each address is listed with its cause within 25 s, and the code stays good",
  { timeout: 60_000 },
  async () => {
    await using gateway = await startPairingGateway();
    await using home = await makeTempFolder();
    const code = parseJoinCode((await gateway.pairing.invite({})).code);
    const silent = createServer((socket) => void socket.on("error", () => undefined).resume());
    const silentAddress = await listen(silent);
    const closed = createServer();
    const closedAddress = await listen(closed);
    await close(closed);
    const addresses = [closedAddress, silentAddress, "no-such-host.invalid:7443"];
    const before = performance.now();
    const fault = await faultOf(joinAs(formatJoinCode({ ...code, addresses }), home));
    expect(performance.now() - before).toBeLessThan(25_000);
    expect(fault).toMatchObject({ code: "GATEWAY_UNREACHABLE", retryable: true });
    expect(fault.details["addresses"]).toMatchObject(
      addresses.map((address) => ({ address, code: "GATEWAY_UNREACHABLE" })),
    );
    for (const address of addresses) expect(fault.message).toContain(address);
    await close(silent);
    expect(await gateway.usesLeft()).toEqual([1]);
    await joinAs(formatJoinCode({ ...code, addresses: [gateway.address] }), home);
  },
);

test("a damaged code is refused before any of its addresses is dialled", async () => {
  let dialled = 0;
  const server = createServer((socket) => {
    dialled += 1;
    socket.destroy();
  });
  const address = await listen(server);
  await using home = await makeTempFolder();
  const code = codeFor([address], pinOfPublicKey(publicKeyOf(await createKeyPem())));
  for (const damaged of [
    code.slice(0, -1),
    `${code}A`,
    code.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
  ]) {
    expect(await faultOf(joinAs(damaged, home))).toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "code" },
    });
  }
  expect(dialled).toBe(0);
  expect(await home.entries()).toEqual([]);
  await close(server);
});

test("a join that is interrupted while nobody answers ends with the reason it was given", async () => {
  await using home = await makeTempFolder();
  const silent = createServer((socket) => void socket.on("error", () => undefined).resume());
  const address = await listen(silent);
  const stop = new AbortController();
  silent.once("connection", () => stop.abort(new Error("interrupted")));
  const joined = joinAs(codeFor([address], pinOfPublicKey(publicKeyOf(await createKeyPem()))), home, {
    signal: stop.signal,
  });
  await expect(joined).rejects.toThrow("interrupted");
  await close(silent);
});

proves(
  "pairing.secret-needed",
  "a wrong secret is unknown, a hundred of them shut their address out for a minute, and nobody else",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startPairingGateway();
    await using relay = await startRelay("127.0.0.2", gateway.address);
    await using home = await makeTempFolder();
    const wrong = (): string => codeFor([gateway.address], gateway.pairing.pin);
    for (let tries = 0; tries < 100; tries += 1) {
      expect(await faultOf(joinAs(wrong(), home))).toMatchObject({
        code: "JOIN_CODE_INVALID",
        details: { reason: "unknown" },
      });
    }
    const limited = await faultOf(joinAs(wrong(), home));
    expect(limited).toMatchObject({ code: "RATE_LIMITED", retryable: true });
    expect(limited.details["retryAfterMs"]).toBeGreaterThan(0);
    expect(limited.details["retryAfterMs"]).toBeLessThanOrEqual(60_000);
    const code = parseJoinCode((await gateway.pairing.invite({})).code);
    expect(await faultOf(joinAs(formatJoinCode(code), home))).toMatchObject({ code: "RATE_LIMITED" });
    await joinAs(formatJoinCode({ ...code, addresses: [relay.address] }), home);
    expect(await gateway.pairing.nodes.list()).toHaveLength(1);
  },
);
