import { expect, test } from "vitest";
import { findIdentity } from "../../../node-agent/pairing/identity.ts";
import { parseJoinCode } from "../../../shared/identity/join-code.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { joinAs, startPairingGateway } from "./pairing-gateway.ts";

const minuteMs = 60_000;

test("a code carries what the gateway advertises and its pin, and comes with the command to run", async () => {
  const advertised = ["gateway.example:7443", "10.0.0.7:7443"];
  await using gateway = await startPairingGateway({ advertised });
  const invite = await gateway.pairing.invite({ uses: 2, ttlMs: 5_000 });
  expect(parseJoinCode(invite.code)).toMatchObject({ addresses: advertised, pin: gateway.pairing.pin });
  expect(invite).toMatchObject({ uses: 2, warnings: [], command: `fairlead node join ${invite.code}` });
});

test("an invite of a gateway that only this machine can reach says so, and how to change it", async () => {
  await using gateway = await startPairingGateway();
  const [warning, ...more] = (await gateway.pairing.invite({})).warnings;
  expect(more).toEqual([]);
  expect(warning).toMatch(/--listen.*--advertise/);
});

test("an invite that asks for nonsense is refused with its field, and makes no code", async () => {
  await using gateway = await startPairingGateway();
  await using home = await makeTempFolder();
  await joinAs((await gateway.pairing.invite({ alias: "taken" })).code, home);
  const before = await gateway.usesLeft();
  const refusals = [
    [{ uses: 0 }, "INVALID_ARGUMENT", "uses"],
    [{ uses: 1.5 }, "INVALID_ARGUMENT", "uses"],
    [{ ttlMs: -1 }, "INVALID_ARGUMENT", "ttl"],
    [{ ttlMs: Number.NaN }, "INVALID_ARGUMENT", "ttl"],
    [{ labels: { "no label": "" } }, "INVALID_ARGUMENT", "label"],
    [{ alias: "No-Alias" }, "INVALID_ARGUMENT", "alias"],
    [{ profile: "root" }, "NOT_FOUND", "profile"],
    [{ alias: "taken" }, "ALREADY_EXISTS", "alias"],
  ] as const;
  for (const [request, code, field] of refusals) {
    expect(await faultOf(gateway.pairing.invite(request))).toMatchObject({ code, details: { field } });
  }
  expect(await gateway.usesLeft()).toEqual(before);
});

proves("pairing.code-expires", "a code is good for ten minutes, or for as long as was said", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  await using home = await makeTempFolder();
  const short = await gateway.pairing.invite({ ttlMs: 2 * minuteMs });
  const usual = await gateway.pairing.invite({});
  const expectExpired = async (code: string, expiresMs: number): Promise<void> => {
    const fault = await faultOf(joinAs(code, home));
    expect(fault).toMatchObject({
      code: "JOIN_CODE_INVALID",
      details: { reason: "expired" },
      hint: "fairlead invite",
    });
    expect(fault.message).toContain(new Date(expiresMs).toISOString());
  };
  await clock.advance(2 * minuteMs);
  await expectExpired(short.code, short.expiresMs);
  await clock.advance(8 * minuteMs - 1);
  expect(usual.expiresMs).toBe(clock.now() + 1);
  await clock.advance(1);
  await expectExpired(usual.code, usual.expiresMs);
  expect(await gateway.pairing.nodes.list()).toEqual([]);
});

test("a code is still good in the last millisecond of its time", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  await using home = await makeTempFolder();
  const { code } = await gateway.pairing.invite({});
  await clock.advance(10 * minuteMs - 1);
  expect((await joinAs(code, home)).identity.nodeId).toMatch(/^[0-9]/);
});

proves("pairing.code-looked-up-exactly", "of three codes each join gets the result of its own", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  const used = await gateway.pairing.invite({ ttlMs: 60 * minuteMs });
  const expired = await gateway.pairing.invite({ ttlMs: minuteMs });
  const valid = await gateway.pairing.invite({ ttlMs: 60 * minuteMs });
  await using first = await makeTempFolder();
  await joinAs(used.code, first);
  await clock.advance(minuteMs);
  for (const [code, reason] of [
    [expired.code, "expired"],
    [used.code, "used"],
  ] as const) {
    await using home = await makeTempFolder();
    expect(await faultOf(joinAs(code, home))).toMatchObject({
      code: "JOIN_CODE_INVALID",
      details: { reason },
    });
    expect(await findIdentity(home.join("node"))).toBeUndefined();
  }
  await using home = await makeTempFolder();
  await joinAs(valid.code, home);
  expect(await findIdentity(home.join("node"))).toBeDefined();
  expect(await gateway.pairing.nodes.list()).toHaveLength(2);
});
