import { once } from "node:events";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { expect } from "vitest";
import { createAuthority, issueServerCertificate } from "../../../gateway/pairing/issue.ts";
import { parseAddress } from "../../../shared/identity/address.ts";
import { publicKeyOf } from "../../../shared/identity/keys.ts";
import { pinOfPublicKey } from "../../../shared/identity/pin.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { memberOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { startNode } from "../../support/start-node.ts";

const slowly = { timeout: 60_000, interval: 200 };

/** A TLS server of another authority that keeps what is sent to it. */
async function startStranger() {
  const authority = await createAuthority(Date.now());
  const server = await issueServerCertificate(authority, { hosts: ["127.0.0.1"], now: Date.now() });
  const received: Buffer[] = [];
  const sockets = new Set<TLSSocket>();
  let handshakes = 0;
  const tls = createTlsServer(
    {
      key: server.keyPem,
      cert: server.certificatePem + authority.certificatePem,
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ["h2"],
      minVersion: "TLSv1.3",
    },
    (socket) => {
      handshakes += 1;
      sockets.add(socket);
      socket.on("error", () => undefined).on("data", (bytes: Buffer) => void received.push(bytes));
    },
  );
  tls.on("tlsClientError", () => undefined);
  tls.listen(0, "127.0.0.1");
  await once(tls, "listening");
  const bound = tls.address();
  return {
    port: typeof bound === "object" && bound ? bound.port : 0,
    pin: pinOfPublicKey(publicKeyOf(authority.keyPem)),
    received,
    handshakes: () => handshakes,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      tls.close();
      await once(tls, "close");
    },
  };
}

proves(
  "pairing.pin-mismatch-sends-nothing",
  "a node that meets a gateway of another authority says nothing, shows both fingerprints, and is back with the right one",
  { timeout: 180_000 },
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    await using stranger = await startStranger();
    await using node = await startNode({ gateway });
    proxy.retarget(stranger.port);
    proxy.cut();
    const status = async (): Promise<unknown> => (await node.cli(["node", "status", "--json"])).json;
    await expect.poll(async () => memberOf(await status(), "code"), slowly).toBe("PIN_MISMATCH");
    await expect.poll(stranger.handshakes, slowly).toBeGreaterThan(2);
    const shown = await status();
    const pins = { expected: gateway.pin, seen: stranger.pin };
    expect(shown).toMatchObject({ code: "PIN_MISMATCH", details: pins });
    const people = (await node.cli(["node", "status"])).stdout;
    expect(people).toContain("PIN_MISMATCH");
    expect(people).toContain(pins.expected);
    expect(people).toContain(pins.seen);
    expect(Buffer.concat(stranger.received).toString("latin1")).toBe("");
    // Dialling goes on, so that nobody has to do anything once the right gateway is back.
    proxy.retarget(parseAddress(gateway.link, "link").port);
    const backAt = systemClock.now();
    await expect
      .poll(async () => memberOf(await gateway.json(["nodes", "show", "devbox"]), "state"), slowly)
      .toBe("online");
    const { lastAttemptAt } = (await status()) as { readonly lastAttemptAt: string };
    expect(Date.parse(lastAttemptAt) - backAt).toBeLessThan(31_000);
    expect(memberOf(await status(), "state")).toBe("online");
  },
);
