import { expect, test } from "vitest";
import { writeRandomFile } from "../../bench/files/trees.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const mebi = 1024 * 1024;
const bigBytes = 1024 * mebi;
const slowly = { timeout: 300_000, interval: 20 };

test("a node killed anywhere in a put of 1 GiB leaves the old file, and takes a whole one afterwards", async () => {
  await using kit = await startGatewayBehindProxy();
  const { gateway, proxy } = kit;
  await using workspace = await makeTempWorkspace({ "big.bin": "old content" });
  await using local = await makeTempFolder();
  await writeRandomFile(local.join("big.bin"), bigBytes);
  await using node = await startNode({
    gateway,
    profile: "full",
    workspaces: { app: `${workspace.path}:rw` },
  });
  const args = ["files", "put", local.join("big.bin"), "devbox:/app/big.bin", "--if-match", "any", "--json"];
  // What arrived before a kill is kept, and does not travel again.
  const before = proxy.counts.down.bytes;
  for (const share of [0.1, 0.5, 0.95]) {
    await using put = spawnProgram(args, { home: gateway.home });
    await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(share * bigBytes);
    await node.kill("SIGKILL");
    expect(await workspace.text("big.bin")).toBe("old content");
    // Left to itself it would go on once the node is back.
    expect((await put.kill("SIGINT")).exitCode).toBe(130);
    await node.restart();
    const entries = (await workspace.entries()).filter((name) => !name.includes("-stage-kept-"));
    expect(entries).toEqual(["big.bin"]);
    expect(await workspace.text("big.bin")).toBe("old content");
  }
  const stored = await gateway.cli(args, { timeoutMs: 600_000 });
  expect({ exitCode: stored.exitCode, json: stored.json }).toMatchObject({
    exitCode: 0,
    json: { failed: [] },
  });
  expect(await workspace.entries()).toEqual(["big.bin"]);
});
