import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { issueServerCertificate } from "../../../gateway/pairing/issue.ts";
import { memberOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";

const patience = { timeout: 180_000 };
const slowly = { timeout: 60_000, interval: 300 };

interface Pair {
  readonly key: string;
  readonly certificate: X509Certificate;
}

function fileOf(gateway: TestGateway): string {
  return join(gateway.home, "gateway/authority/server.pem");
}

async function shownBy(gateway: TestGateway): Promise<Pair> {
  const text = await readFile(fileOf(gateway), "utf8");
  const at = text.indexOf("-----BEGIN CERTIFICATE-----");
  return { key: text.slice(0, at), certificate: new X509Certificate(text.slice(at)) };
}

/** Another certificate for the key that the server has, of the same authority. */
async function reissue(gateway: TestGateway): Promise<void> {
  const folder = join(gateway.home, "gateway/authority");
  const signer = {
    keyPem: await readFile(join(folder, "key.pem"), "utf8"),
    certificatePem: await readFile(join(folder, "cert.pem"), "utf8"),
  };
  const { key } = await shownBy(gateway);
  const hosts = ["localhost", "127.0.0.1", "::1"];
  const made = await issueServerCertificate(signer, { hosts, now: Date.now(), keyPem: key });
  await writeFile(fileOf(gateway), made.keyPem + made.certificatePem);
}

proves(
  "pairing.server-certificate-replaced",
  "a gateway with another server certificate of its authority, of the same key or a new one, has its nodes back",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using first = await startNode({ gateway, alias: "first" });
    await using second = await startNode({ gateway, alias: "second" });
    const online = async (): Promise<readonly unknown[]> => {
      const nodes = memberOf(await gateway.json(["nodes", "ls"]), "nodes");
      return Array.isArray(nodes) ? nodes.map((node) => memberOf(node, "state")) : [];
    };
    for (const replace of [() => reissue(gateway), () => rm(fileOf(gateway))]) {
      const before = await shownBy(gateway);
      await gateway.kill("SIGTERM");
      await replace();
      await gateway.restart();
      const after = await shownBy(gateway);
      expect(after.certificate.serialNumber).not.toBe(before.certificate.serialNumber);
      await expect.poll(online, slowly).toEqual(["online", "online"]);
    }
    const last = await shownBy(gateway);
    expect(last.certificate.checkPrivateKey(createPrivateKey(last.key))).toBe(true);
    for (const node of [first, second]) {
      expect(node.logs()).not.toContain("PIN_MISMATCH");
      expect(memberOf((await node.cli(["node", "status", "--json"])).json, "state")).toBe("online");
    }
  },
);
