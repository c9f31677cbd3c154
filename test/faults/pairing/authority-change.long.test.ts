import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { inviteCode, startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeLimits } from "../../support/write-limits.ts";

const patience = { timeout: 300_000 };
const slowly = { timeout: 60_000, interval: 300 };

async function step(gateway: TestGateway, word: string, ...more: readonly string[]): Promise<unknown> {
  return await gateway.json(["gateway", "authority", word, ...more]);
}

async function trustsIn(node: TestNode): Promise<readonly unknown[]> {
  return listOf((await node.cli(["node", "status", "--json"])).json, "trusts");
}

async function nodeIn(gateway: TestGateway, alias: string): Promise<unknown> {
  const nodes = listOf(await step(gateway, "show"), "nodes");
  return nodes.find((node) => memberOf(node, "alias") === alias);
}

async function stateOf(gateway: TestGateway, alias: string): Promise<unknown> {
  return memberOf(await gateway.json(["nodes", "show", alias]), "state");
}

proves(
  "pairing.authority-key-overlap",
  "nodes that heard of the next key link before and after the switch; what is not signed is ignored and recorded",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    await using sleeper = await startNode({ gateway, alias: "sleeper" });
    await sleeper.kill("SIGTERM");
    const first = memberOf(await step(gateway, "show"), "signer");

    const announced = await step(gateway, "announce");
    const next = memberOf(memberOf(announced, "next"), "pin");
    expect(announced).toMatchObject({ phase: "announced", signer: first });
    await expect.poll(() => trustsIn(node), slowly).toEqual([first, next]);
    await expect.poll(() => nodeIn(gateway, "devbox"), slowly).toMatchObject({ ready: true });
    await node.restart();
    expect(await stateOf(gateway, "devbox")).toBe("online");

    expect(await step(gateway, "switch")).toMatchObject({ phase: "switched", signer: next });
    // The link goes on; so does the next one, with the certificate of the old key.
    expect(await stateOf(gateway, "devbox")).toBe("online");
    await node.restart();
    expect(await stateOf(gateway, "devbox")).toBe("online");
    // One that slept through the announcement knows the next key by the signature of the old one.
    await sleeper.restart();
    expect(await stateOf(gateway, "sleeper")).toBe("online");
    await expect.poll(() => trustsIn(sleeper), slowly).toEqual([first, next]);
    // So does a machine with a code of before, and one with a code of now.
    for (const alias of ["third", "fourth"]) {
      await using home = await makeTempFolder();
      const code = await inviteCode(gateway, ["--name", alias]);
      await using joined = spawnProgram(["node", "join", code, "--json"], { home: home.path });
      await joined.waitForLine((line) => line.includes('"event":"ready"'));
      await gateway.cli(["nodes", "revoke", alias]);
      await joined.ended;
    }
    // Whoever has no certificate of the next key would be cut off.
    expect(faultOf(await gateway.cli(["gateway", "authority", "retire", "--json"]))).toMatchObject({
      code: "CONFLICT",
      details: { nodes: ["devbox", "sleeper"] },
    });

    // A statement that nobody signed whom the nodes trust: as if somebody had written it into the store.
    await gateway.kill("SIGTERM");
    forgeStatement(gateway.home);
    await gateway.restart();
    await expect.poll(() => stateOf(gateway, "devbox"), slowly).toBe("online");
    await expect.poll(async () => (await recordsOf(gateway)).length, slowly).toBeGreaterThan(0);
    expect(await recordsOf(gateway)).toContainEqual(
      expect.objectContaining({
        action: "authority.ignore",
        outcome: "UNAUTHENTICATED",
        nodeId: node.nodeId,
      }),
    );
    expect(await trustsIn(node)).toEqual([first, next]);
    await node.restart();
    expect(await stateOf(gateway, "devbox")).toBe("online");
  },
);

async function recordsOf(gateway: TestGateway): Promise<readonly unknown[]> {
  const records = listOf(await gateway.json(["audit", "query", "--node", "devbox"]), "records");
  return records.filter((record) => memberOf(record, "action") === "authority.ignore");
}

/** Puts a later statement with spoilt signatures into the store. */
function forgeStatement(home: string): void {
  const db = new DatabaseSync(join(home, "gateway/state.db"));
  const row = db.prepare("SELECT value_json FROM settings WHERE key = 'authority.trust'").get();
  const kept = JSON.parse(String(row?.["value_json"])) as { serial: number };
  const forged = JSON.stringify({ ...kept, serial: kept.serial + 1_000 });
  db.prepare("UPDATE settings SET value_json = ? WHERE key = 'authority.trust'").run(forged);
  db.close();
}

test("a change of the key goes through to its end, and can be taken back until then", patience, async () => {
  await using folder = await makeTempFolder();
  // A certificate that lives a minute is renewed within three seconds once its authority signs no more.
  await using gateway = await startGateway({
    home: await writeLimits(folder.path, { certificateMs: 60_000 }),
  });
  await using node = await startNode({ gateway });
  const first = memberOf(await step(gateway, "show"), "signer");
  await step(gateway, "announce");
  expect(faultOf(await gateway.cli(["gateway", "authority", "announce", "--json"]))).toMatchObject({
    exitCode: 6,
    code: "CONFLICT",
  });
  expect(faultOf(await gateway.cli(["gateway", "authority", "retire", "--json"]))).toMatchObject({
    code: "CONFLICT",
    details: { actual: "announced" },
  });
  await expect.poll(async () => (await trustsIn(node)).length, slowly).toBe(2);
  await step(gateway, "switch");
  expect(await step(gateway, "abort")).toMatchObject({ phase: "announced", signer: first });
  // On a slow machine it may have got a certificate of the next key meanwhile; it takes the old one's again.
  await expect.poll(() => nodeIn(gateway, "devbox"), slowly).toMatchObject({ issuer: first });
  expect(await step(gateway, "abort")).toMatchObject({ phase: "single", signer: first, next: null });
  await expect.poll(() => trustsIn(node), slowly).toEqual([first]);
  expect(await stateOf(gateway, "devbox")).toBe("online");

  await step(gateway, "announce");
  await expect.poll(async () => (await trustsIn(node)).length, slowly).toBe(2);
  const second = memberOf(await step(gateway, "switch"), "signer");
  // Killed in between, the gateway is where it was.
  await gateway.kill("SIGKILL");
  await gateway.restart();
  expect(await step(gateway, "show")).toMatchObject({ phase: "switched", signer: second });
  await expect.poll(() => nodeIn(gateway, "devbox"), slowly).toMatchObject({ ready: true, issuer: second });
  expect(await step(gateway, "retire")).toMatchObject({ phase: "single", signer: second, next: null });
  await expect.poll(() => trustsIn(node), slowly).toEqual([second]);
  await gateway.restart();
  expect(await step(gateway, "show")).toMatchObject({ phase: "single", signer: second, next: null });
  await node.restart();
  expect(await stateOf(gateway, "devbox")).toBe("online");
});

test(
  "a node that a retired key cuts off is named on both sides, and a code lets it in again",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    const refusedStep = async (word: string): Promise<string> =>
      faultOf(await gateway.cli(["gateway", "authority", word, "--json"])).hint;
    expect(await refusedStep("switch")).toBe("fairlead gateway authority announce");
    await step(gateway, "announce");
    expect(await refusedStep("announce")).toBe("fairlead gateway authority switch");
    await expect.poll(async () => (await trustsIn(node)).length, slowly).toBe(2);
    await node.kill("SIGTERM");
    await step(gateway, "switch");
    expect(await refusedStep("announce")).toBe("fairlead gateway authority retire");
    expect(await step(gateway, "retire", "--force")).toMatchObject({
      phase: "single",
      nextStep: "fairlead invite, then on those machines fairlead node join CODE",
      nodes: [{ alias: "devbox", ready: false, cutOff: true }],
    });
    expect((await gateway.cli(["gateway", "authority", "show"])).stdout).toContain("cut off: devbox");
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({
      state: "offline",
      reason: "foreign_certificate",
      nextStep: expect.stringContaining("fairlead node join CODE") as unknown,
    });

    await node.restart({ waitForReady: false });
    const status = async (): Promise<unknown> => (await node.cli(["node", "status", "--json"])).json;
    await expect
      .poll(status, slowly)
      .toMatchObject({ reason: "foreign_certificate", nextStep: "fairlead node join CODE" });
    const doctor = await node.cli(["node", "doctor", "--json"]);
    expect(doctor.exitCode).toBe(1);
    expect(listOf(doctor.json, "checks")).toContainEqual(
      expect.objectContaining({ check: "certificate", state: "failed", hint: "fairlead node join CODE" }),
    );
    await node.kill("SIGTERM");
    const code = await inviteCode(gateway);
    await using joined = spawnProgram(["node", "join", code, "--json"], { home: node.home });
    await joined.waitForLine((line) => line.includes('"event":"ready"'));
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({
      id: node.nodeId,
      state: "online",
    });
  },
);
