import { expect } from "vitest";
import { readGatewayConfig, resolveGatewaySettings } from "../../../gateway/config/gateway-settings.ts";
import { startGateway } from "../../../gateway/gateway.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import type { NodeIdentity } from "../../../node-agent/pairing/identity.ts";
import { dialTls } from "../../../node-agent/pairing/tls.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { Admin } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { createCertificateRequest } from "../../../shared/identity/keys.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { joinAs } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { runCli } from "../../support/run-cli.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Everything that a node can say to its gateway, and how it was answered. */
async function say(identity: NodeIdentity): Promise<readonly Fault[]> {
  const address = identity.addresses[0] ?? "";
  await using client = openGrpcClient({ address, security: () => dialTls(identity) });
  const certificateRequest = await createCertificateRequest(identity.keyPem);
  const renewal = await faultOf(client.client(Pairing).renew({ certificateRequest }));
  await using link = startLink({
    addresses: identity.addresses,
    loadTls: () => dialTls(identity),
    services: [],
  });
  return [renewal, await link.closed];
}

proves(
  "pairing.revoke-despite-hung-cleanup",
  "a clean-up that never ends holds up no revocation, and the node is refused at once and later",
  { timeout: 120_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using home = await makeTempFolder();
    const settings = resolveGatewaySettings(
      folder.join("gateway"),
      await readGatewayConfig(folder.join("gateway")),
      { listen: "127.0.0.1:0", http: "127.0.0.1:0" },
    );
    let begun = 0;
    const never = (): Promise<never> => {
      begun += 1;
      return new Promise<never>(() => undefined);
    };
    await using gateway = await startGateway(settings, {
      clock: systemClock,
      log: silentLog,
      version: "0",
      environment: {},
      cleanUps: [never, () => Promise.reject(new Error("broken")), never],
    });
    await using admin = openGrpcClient({ address: `unix:${gateway.addresses.admin}`, security: "insecure" });
    const calls = admin.client(Admin);
    const invite = async (alias: string): Promise<string> => (await calls.createInvite({ alias })).code;
    const { identity } = await joinAs(await invite("devbox"), home);
    await using link = startLink({
      addresses: identity.addresses,
      loadTls: () => dialTls(identity),
      services: [],
    });
    await expect.poll(() => link.status().state).toBe("online");

    const startedAt = performance.now();
    const { node } = await calls.revokeNode({ node: "devbox" });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(node).toMatchObject({ state: "revoked" });
    expect(begun).toBe(2);
    const revoked = { code: "IDENTITY_REVOKED", retryable: false };
    expect(await link.closed).toMatchObject(revoked);
    for (const fault of await say(identity)) expect(fault).toMatchObject(revoked);
    await systemClock.sleep(5_000);
    for (const fault of await say(identity)) expect(fault).toMatchObject(revoked);

    // The command itself takes no longer than that beyond what any command takes.
    await using other = await makeTempFolder();
    await joinAs(await invite("second"), other);
    const timed = async (args: readonly string[]): Promise<number> => {
      const before = performance.now();
      expect((await runCli(args, { home: folder.path })).exitCode).toBe(0);
      return performance.now() - before;
    };
    await timed(["nodes", "ls"]);
    const usual = await timed(["nodes", "ls"]);
    expect((await timed(["nodes", "revoke", "second"])) - usual).toBeLessThan(2_000);
  },
);
