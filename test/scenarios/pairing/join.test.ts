import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { expect, test } from "vitest";
import { loadIdentity } from "../../../node-agent/pairing/identity.ts";
import { exitStatus } from "../../../shared/fault/codes.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { joinAs, startPairingGateway } from "./pairing-gateway.ts";

test("a machine that joins is a node with the invite's alias, labels and profile, and the gateway knows its key", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const labels = { region: "eu" };
  const invite = await gateway.pairing.invite({ alias: "devbox", labels, profile: "work" });
  const joined = await joinAs(invite.code, home, { wishedAlias: "other", hostName: "box.example" });

  expect(joined).toMatchObject({ profile: "work", wishKept: false, identity: { alias: "devbox" } });
  expect(await loadIdentity(home.join("node"))).toEqual(joined.identity);
  const [node, ...more] = await gateway.pairing.nodes.list();
  expect(more).toEqual([]);
  expect(node).toMatchObject({ id: joined.identity.nodeId, alias: "devbox", labels, profile: "work" });
  expect(node).toMatchObject({ hostName: "box.example", platform: "linux", revokedAt: undefined });
  expect(node?.certificateExpiresAt).toBe(joined.identity.certificateExpiresAt);
  const { raw } = new X509Certificate(joined.identity.certificatePem);
  expect(await gateway.pairing.identify(raw)).toMatchObject({ nodeId: node?.id, alias: "devbox" });
  expect(await home.entries()).toEqual(
    ["", "/cert.pem", "/gateway.json", "/key.pem"]
      .map((name) => `node/identity${name}`)
      .toSpliced(0, 0, "node"),
  );
});

test("key and certificate are for their owner alone on both sides, whatever the umask", async () => {
  const umask = process.umask(0);
  try {
    await using gateway = await startPairingGateway();
    await using home = await makeTempFolder();
    await joinAs((await gateway.pairing.invite({})).code, home);
    const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);
    const files = [
      "state.db",
      "authority/key.pem",
      "authority/cert.pem",
      "authority/server.pem",
      "lock",
      "lock.json",
    ];
    expect(files.map((file) => mode(`${gateway.dir}/${file}`))).toEqual(files.map(() => "600"));
    expect([gateway.dir, `${gateway.dir}/authority`, home.join("node", "identity")].map(mode)).toEqual([
      "700",
      "700",
      "700",
    ]);
    const identity = ["key.pem", "cert.pem", "gateway.json"].map((file) =>
      home.join("node", "identity", file),
    );
    expect(identity.map(mode)).toEqual(["600", "600", "600"]);
  } finally {
    process.umask(umask);
  }
});

test("the secret of a code and the key of a node are in no file of the gateway", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const { code } = await gateway.pairing.invite({});
  const { identity } = await joinAs(code, home);
  const secrets = [code, identity.keyPem, identity.keyPem.split("\n")[1] ?? "", secretOf(code)];
  for (const file of ["state.db", "state.db-wal"]) {
    const content = readFileSync(`${gateway.dir}/${file}`);
    for (const secret of secrets) expect(content.includes(secret)).toBe(false);
  }
  for (const file of ["cert.pem", "gateway.json"]) {
    expect(readFileSync(home.join("node", "identity", file), "utf8")).not.toContain(code.slice(8, 28));
  }
});

function secretOf(code: string): Buffer {
  return Buffer.from(code.slice("flj_".length), "base64url").subarray(2, 18);
}

test("a wish is granted when it is free, and neither taken from a node nor from an invite that named it", async () => {
  await using gateway = await startPairingGateway();
  await using first = await makeTempFolder();
  await using second = await makeTempFolder();
  await using third = await makeTempFolder();
  await using fourth = await makeTempFolder();
  const { code } = await gateway.pairing.invite({ uses: 4 });
  expect(await joinAs(code, first, { wishedAlias: "mine" })).toMatchObject({
    wishKept: true,
    identity: { alias: "mine" },
  });
  const refused = await joinAs(code, second, { wishedAlias: "mine" });
  expect(refused.wishKept).toBe(false);
  expect(refused.identity.alias).toMatch(/^node-[0-9a-f]{4}$/);
  await gateway.pairing.invite({ alias: "promised" });
  expect(await joinAs(code, third, { wishedAlias: "promised" })).toMatchObject({ wishKept: false });
  expect(await joinAs(code, fourth)).toMatchObject({ wishKept: true });
});

test("an invite for several machines numbers its alias from the second on", async () => {
  await using gateway = await startPairingGateway();
  const { code } = await gateway.pairing.invite({ alias: "worker", uses: 3 });
  for (const alias of ["worker", "worker-2", "worker-3"]) {
    await using home = await makeTempFolder();
    expect((await joinAs(code, home)).identity.alias).toBe(alias);
  }
});

proves(
  "pairing.code-one-use",
  "a code of one use is refused to a second machine, which leaves nothing behind",
  async () => {
    await using gateway = await startPairingGateway();
    await using first = await makeTempFolder();
    await using second = await makeTempFolder();
    const { code } = await gateway.pairing.invite({});
    await joinAs(code, first);
    const fault = await faultOf(joinAs(code, second));
    expect(fault).toMatchObject({ code: "JOIN_CODE_INVALID", retryable: false, details: { reason: "used" } });
    expect(fault.hint).toContain("fairlead invite");
    expect(exitStatus(fault.code, fault.retryable)).toBe(1);
    expect(await gateway.pairing.nodes.list()).toHaveLength(1);
    expect(await second.entries()).not.toContain("node/identity");
  },
);

test("a home that has an identity refuses to join, and neither identity nor code is touched", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({ alias: "devbox" })).code, home);
  const { code } = await gateway.pairing.invite({});
  const fault = await faultOf(joinAs(code, home));
  expect(fault).toMatchObject({
    code: "ALREADY_EXISTS",
    details: { gateway: gateway.address, alias: "devbox", nodeId: identity.nodeId },
  });
  expect(await loadIdentity(home.join("node"))).toEqual(identity);
  expect(await gateway.usesLeft()).toEqual([0, 1]);
});

test("the same key that enrols again keeps id, alias and labels; a new key becomes another node", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const first = await joinAs(
    (await gateway.pairing.invite({ alias: "devbox", labels: { a: "b" } })).code,
    home,
  );
  const { code } = await gateway.pairing.invite({ uses: 2, profile: "full" });
  const again = await joinAs(code, home, { existing: "same_key" });
  expect(again.identity).toMatchObject({
    nodeId: first.identity.nodeId,
    alias: "devbox",
    keyPem: first.identity.keyPem,
  });
  expect(await gateway.pairing.nodes.list()).toMatchObject([
    { alias: "devbox", labels: { a: "b" }, profile: "read" },
  ]);
  const other = await joinAs(code, home, { existing: "new_key" });
  expect(other.identity.nodeId).not.toBe(first.identity.nodeId);
  expect(other.identity.keyPem).not.toBe(first.identity.keyPem);
  expect(await gateway.pairing.nodes.list()).toHaveLength(2);
  expect(await home.entries()).not.toContain("node/identity.old");
});
