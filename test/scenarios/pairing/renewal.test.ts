import { expect, test } from "vitest";
import { gatewayDefaults } from "../../../gateway/config/gateway-settings.ts";
import { holdIdentity } from "../../../node-agent/pairing/held-identity.ts";
import type { NodeIdentity } from "../../../node-agent/pairing/identity.ts";
import { renewalTime, startRenewal } from "../../../node-agent/pairing/renew.ts";
import { memberOf } from "../../support/cli-fault.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { writeLimits } from "../../support/write-limits.ts";
import { joinAs, startPairingGateway } from "./pairing-gateway.ts";

const patience = { timeout: 120_000 };
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** When a machine asks to renew, as the age of its certificate in milliseconds. */
async function ageAtRenewal(identity: NodeIdentity, draw: number): Promise<number> {
  const clock = new ManualClock(identity.certificateBeganAt);
  const askedAt: number[] = [];
  await using home = await makeTempFolder();
  await using _ = startRenewal({
    held: holdIdentity(home.path, identity),
    clock,
    random: () => draw,
    onRenewed: () => undefined,
    renew: async () => {
      askedAt.push(clock.now());
      throw new Error("no line");
    },
  });
  await clock.advance(renewalTime(identity, draw) - clock.now() - 1);
  expect(askedAt).toEqual([]);
  await clock.advance(1);
  // It asks again after each failure, at once where the draw is 0: the first time is what counts.
  await expect.poll(() => askedAt.length).toBeGreaterThan(0);
  return (askedAt[0] ?? 0) - identity.certificateBeganAt;
}

proves(
  "pairing.renew-at-two-thirds",
  "a certificate of 7 days is renewed between 4 days 16 h and 5 days, spread at random over that time",
  patience,
  async () => {
    expect(gatewayDefaults.limits.certificateMs).toBe(7 * dayMs);
    await using gateway = await startPairingGateway();
    await using home = await makeTempFolder();
    const { identity } = await joinAs((await gateway.pairing.invite({})).code, home);
    expect(identity.certificateExpiresAt - identity.certificateBeganAt).toBe(7 * dayMs);
    const earliest = 4 * dayMs + 16 * hourMs;
    for (const draw of [0, 0.25, 0.5, 0.75, 0.999]) {
      const age = await ageAtRenewal(identity, draw);
      expect(age).toBeGreaterThanOrEqual(earliest);
      expect(age).toBeLessThanOrEqual(5 * dayMs);
      expect(age).toBeCloseTo(earliest + draw * 8 * hourMs, -4);
    }
    const ages = Array.from({ length: 200 }, () => renewalTime(identity, Math.random()));
    expect(new Set(ages).size).toBeGreaterThan(150);
  },
);

proves(
  "pairing.renew-at-two-thirds",
  "a renewal cuts no link and breaks no call that runs",
  patience,
  async () => {
    await using folder = await makeTempFolder();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    await using gateway = await startGateway({
      home: await writeLimits(folder.path, { certificateMs: 9_000 }),
    });
    await using node = await startNode({
      gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    });
    const show = async (): Promise<unknown> => await gateway.json(["nodes", "show", "devbox"]);
    const before = await show();
    await using call = spawnProgram(
      ["tools", "call", "devbox__exec", "--json", "--args", '{"command":"sleep 20; echo done"}'],
      { home: gateway.home },
    );
    // Longer than two certificates last.
    expect((await call.ended).exitCode).toBe(0);
    expect(call.stdout()).toContain("done");
    const after = await show();
    expect(memberOf(after, "generation")).toBe(memberOf(before, "generation"));
    expect(memberOf(after, "state")).toBe("online");
    expect(memberOf(after, "renewal")).toBeNull();
    const expiries = [before, after].map((one) => Date.parse(String(memberOf(one, "certificateExpiresAt"))));
    expect((expiries[1] ?? 0) - (expiries[0] ?? 0)).toBeGreaterThan(9_000);
    const status = (await node.cli(["node", "status", "--json"])).json;
    expect(memberOf(status, "renewal")).toBeNull();
  },
);

test("a renewal that others have done is not done again", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({})).code, home);
  const clock = new ManualClock(identity.certificateBeganAt);
  const held = holdIdentity(home.path, identity);
  let current = identity;
  let asked = 0;
  await using renewal = startRenewal({
    held: {
      ...held,
      get current() {
        return current;
      },
    },
    clock,
    random: () => 0,
    onRenewed: () => undefined,
    renew: async () => {
      asked += 1;
      throw new Error("not now");
    },
  });
  await clock.advance(4 * dayMs);
  current = {
    ...identity,
    certificateBeganAt: identity.certificateBeganAt + 4 * dayMs,
    certificateExpiresAt: identity.certificateExpiresAt + 4 * dayMs,
  };
  await clock.advance(2 * dayMs);
  expect(asked).toBe(0);
  expect(renewal.status()).toEqual({ kind: "waiting", renewAt: renewalTime(current, 0) });
});
