import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { holdIdentity } from "../../../node-agent/pairing/held-identity.ts";
import { startRenewal } from "../../../node-agent/pairing/renew.ts";
import { joinAs, startPairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { memberOf } from "../../support/cli-fault.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeLimits } from "../../support/write-limits.ts";

const slowly = { timeout: 60_000, interval: 200 };

proves(
  "pairing.renew-failure-visible",
  "a renewal that fails shows on both sides with since, code and expiry; the link stays until then, and comes back",
  { timeout: 240_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using gateway = await startGateway({
      home: await writeLimits(folder.path, { certificateMs: 40_000 }),
    });
    await using node = await startNode({ gateway });
    const show = async (): Promise<unknown> => await gateway.json(["nodes", "show", "devbox"]);
    const status = async (): Promise<unknown> => (await node.cli(["node", "status", "--json"])).json;
    const before = await show();
    // The store takes no renewal: whatever the node asks for, it gets no certificate.
    const db = new DatabaseSync(join(gateway.home, "gateway/state.db"), { timeout: 5_000 });
    db.exec(
      "CREATE TRIGGER broken BEFORE UPDATE OF certificate_expires_at ON nodes BEGIN SELECT RAISE(FAIL, 'broken'); END",
    );
    await expect.poll(async () => memberOf(await show(), "renewal"), slowly).not.toBeNull();
    const expiresAt = String(memberOf(await status(), "certificateExpiresAt"));
    const failing = {
      since: expect.stringMatching(/^20\d\d-/),
      code: expect.stringMatching(/^[A-Z_]+$/),
      message: expect.stringMatching(/./),
      certificateExpiresAt: expiresAt,
    };
    const shown = await show();
    expect(shown).toMatchObject({ state: "online", renewal: failing });
    expect(await status()).toMatchObject({ state: "online", renewal: failing });
    expect(memberOf(shown, "generation")).toBe(memberOf(before, "generation"));
    // Not a moment before the certificate ends the link does; nor is it tried any less after that.
    await expect.poll(async () => memberOf(await show(), "reason"), slowly).toMatch(/certificate_expired/);
    const { since } = (await show()) as { readonly since: string };
    expect(Date.parse(since)).toBeGreaterThanOrEqual(Date.parse(expiresAt) - 50);
    for (const cli of [gateway.cli(["nodes", "show", "devbox"]), node.cli(["node", "status"])])
      expect((await cli).stdout).toMatch(/renewal: fails since 20\d\d-.*\([A-Z_]+\)/);
    db.exec("DROP TRIGGER broken");
    db.close();
    await expect.poll(async () => memberOf(await show(), "state"), slowly).toBe("online");
    await expect.poll(async () => memberOf(await show(), "renewal"), slowly).toBeNull();
    expect(await status()).toMatchObject({ state: "online", renewal: null });
  },
);

proves("pairing.renew-failure-visible", "it is tried again with full jitter, until it succeeds", async () => {
  const clock = new ManualClock(Date.now());
  await using gateway = await startPairingGateway({ clock });
  await using home = await makeTempFolder();
  const { identity } = await joinAs((await gateway.pairing.invite({})).code, home);
  const draws = [0.5, 0.9, 0.1, 0.7, 0.3, 0.99];
  const tries: number[] = [];
  let drawn = 0;
  await using renewal = startRenewal({
    held: holdIdentity(home.join("node"), identity),
    clock,
    random: () => draws[drawn++ % draws.length] ?? 0,
    onRenewed: () => undefined,
    renew: async () => {
      tries.push(clock.now());
      throw new Error("no line");
    },
  });
  const { renewAt } = renewal.status() as { readonly renewAt: number };
  await clock.advance(renewAt - clock.now());
  await expect.poll(() => tries.length).toBe(1);
  // Each wait is the drawn part of a ceiling that doubles from one second.
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const wait = (draws[(attempt + 1) % draws.length] ?? 0) * 1_000 * 2 ** attempt;
    await expect.poll(() => clock.nextInMs).toBeDefined();
    await clock.advance(wait - 1);
    expect(tries).toHaveLength(attempt + 1);
    await clock.advance(2);
    await expect.poll(() => tries.length).toBe(attempt + 2);
    await expect.poll(() => renewal.status().kind).toBe("failing");
  }
});
