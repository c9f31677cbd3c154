import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import { faultOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { inviteCode, startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const mebi = 1024 * 1024;
const slowly = { timeout: 30_000, interval: 50 };

proves(
  "pairing.revoke-mid-stream",
  "a file that streams when its node is revoked brings not a byte more, and nothing revives it",
  { timeout: 180_000 },
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    await using workspace = await makeTempWorkspace({ "big.bin": randomBytes(32 * mebi) });
    await using node = await startNode({ gateway, workspaces: { app: workspace.path } });
    proxy.limit(mebi);
    const before = proxy.counts.up.bytes;
    await using read = spawnProgram(["files", "cat", "devbox:/app/big.bin"], { home: gateway.home });
    await expect.poll(() => proxy.counts.up.bytes - before, slowly).toBeGreaterThan(mebi);
    await expect.poll(() => read.stdout().length, slowly).toBeGreaterThan(0);
    expect((await gateway.cli(["nodes", "revoke", "devbox"])).exitCode).toBe(0);
    const delivered = read.stdout().length;
    expect(proxy.counts.open).toBe(0);
    proxy.mend();
    expect((await read.ended).exitCode).toBe(3);
    expect(read.stderr()).toContain("IDENTITY_REVOKED");
    expect(read.stdout().length).toBe(delivered);
    // The same machine comes back as another node; what was asked of the old one stays refused.
    expect((await node.ended).exitCode).toBe(3);
    const code = await inviteCode(gateway, ["--name", "second"]);
    await using joined = spawnProgram(["node", "join", code, "--json"], { home: node.home });
    await joined.waitForLine((line) => line.includes('"event":"ready"'));
    expect(read.stdout().length).toBe(delivered);
    expect(faultOf(await gateway.cli(["files", "cat", "devbox:/app/big.bin", "--json"]))).toMatchObject({
      code: "WORKSPACE_ACCESS_UNAVAILABLE",
      details: { reason: "revoked" },
    });
  },
);
