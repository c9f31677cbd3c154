import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { listOf, memberOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { lapseCertificate } from "../../support/lapsed-certificate.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { writeLimits } from "../../support/write-limits.ts";

const patience = { timeout: 180_000 };
const slowly = { timeout: 40_000, interval: 200 };
const dayMs = 86_400_000;

async function stateOf(gateway: TestGateway): Promise<unknown> {
  return memberOf(await gateway.json(["nodes", "show", "devbox"]), "state");
}

async function expiryOf(node: TestNode): Promise<number> {
  const { json } = await node.cli(["node", "status", "--json"]);
  return Date.parse(String(memberOf(json, "certificateExpiresAt")));
}

proves(
  "pairing.lapsed-renews",
  "a certificate that lapsed 1 or 89 days ago is renewed by its node alone; after 91 days only a new code helps",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    for (const days of [1, 89]) {
      await node.kill("SIGTERM");
      await lapseCertificate({ gatewayHome: gateway.home, nodeHome: node.home, days });
      expect(await expiryOf(node)).toBeLessThan(Date.now() - (days - 0.1) * dayMs);
      await node.restart();
      expect(await stateOf(gateway)).toBe("online");
      expect(await expiryOf(node)).toBeGreaterThan(Date.now() + 6.9 * dayMs);
    }
    await node.kill("SIGTERM");
    await lapseCertificate({ gatewayHome: gateway.home, nodeHome: node.home, days: 91 });
    const late = await node.cli(["node", "run", "--json"]);
    expect(late.exitCode).toBe(3);
    expect(late.json).toMatchObject({
      error: {
        code: "IDENTITY_EXPIRED",
        retryable: false,
        hint: expect.stringContaining("fairlead node join CODE"),
      },
    });
    const status = await node.cli(["node", "status", "--json"]);
    expect({ exitCode: status.exitCode, json: status.json }).toMatchObject({
      exitCode: 3,
      json: { state: "IDENTITY_EXPIRED", nextStep: "fairlead node join CODE" },
    });
  },
);

test(
  "a node that slept past its certificate, or whose gateway was down, is back by itself",
  patience,
  async () => {
    await using folder = await makeTempFolder();
    await writeLimits(folder.path, { certificateMs: 6_000 });
    await using gateway = await startGateway({ home: folder.path });
    await using node = await startNode({ gateway });
    node.signal("SIGSTOP");
    await systemClock.sleep(8_000);
    node.signal("SIGCONT");
    await expect.poll(() => stateOf(gateway), slowly).toBe("online");
    await gateway.kill("SIGKILL");
    await systemClock.sleep(8_000);
    await gateway.restart();
    await expect.poll(() => stateOf(gateway), slowly).toBe("online");
  },
);

proves(
  "pairing.wrong-clock-named",
  "a node whose clock is 30 days off says so, in seconds, and is back once it is set",
  patience,
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway } = kit;
    await using node = await startNode({ gateway });
    await node.kill("SIGTERM");
    for (const days of [30, -30]) {
      const shifted = {
        nodeArgs: ["--import", join(import.meta.dirname, "../../fixtures/programs/shift-clock.mjs")],
        env: { FAIRLEAD_TEST_CLOCK_MS: String(days * dayMs) },
      };
      await using program = spawnProgram(["node", "run"], { home: node.home, ...shifted });
      await expect
        .poll(async () => memberOf((await node.cli(["node", "status", "--json"])).json, "reason"), slowly)
        .toBe("clock_wrong");
      const { json } = await node.cli(["node", "status", "--json"]);
      const offSeconds = Number(memberOf(memberOf(json, "details"), "offSeconds"));
      expect(Math.abs(offSeconds - days * 86_400)).toBeLessThan(60);
      const { stdout } = await node.cli(["node", "status"]);
      expect(stdout).toMatch(/reason: clock wrong/);
      expect(stdout).toMatch(
        new RegExp(`the clock of this machine is \\d+ s ${days > 0 ? "ahead of" : "behind"} the gateway's`),
      );
      expect(stdout).not.toMatch(/expired|not valid/);
      const doctor = await node.cli(["node", "doctor", "--json"], shifted);
      expect(doctor.exitCode).toBe(1);
      const checks = listOf(doctor.json, "checks");
      const failed = checks.filter((check) => memberOf(check, "state") === "failed");
      expect(failed).toMatchObject([{ check: "clock", message: expect.stringMatching(/ \d{7} s /) }]);
      expect(JSON.stringify(checks)).not.toMatch(/expired|not valid|lapsed/);
      expect(program.pid).toBeGreaterThan(0);
    }
    await node.restart();
    expect(await stateOf(gateway)).toBe("online");
  },
);
