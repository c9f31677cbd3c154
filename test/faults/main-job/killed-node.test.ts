import { createHash, randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf } from "../../support/cli-fault.ts";
import { type GatewayBehindProxy, startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";

// A node that is killed in the middle of a transfer leaves what was there before, and cleans up when it is back.
const patience = { timeout: 180_000 };
const slowly = { timeout: 60_000, interval: 50 };
const mebi = 1024 * 1024;
const big = randomBytes(64 * mebi);

let stack: AsyncDisposableStack;
let kit: GatewayBehindProxy;
let workspace: TempWorkspace;
let local: TempFolder;
let node: TestNode;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  kit = stack.use(await startGatewayBehindProxy());
  workspace = stack.use(await makeTempWorkspace({ "deep/old.bin": "old content" }));
  local = stack.use(await makeTempFolder());
  await writeFile(local.join("big.bin"), big);
  node = stack.use(
    await startNode({
      gateway: kit.gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Starts a put through a slow line and waits until so much of it has crossed. */
async function putUntil(crossedBytes: number, path: string): Promise<ReturnType<typeof spawnProgram>> {
  const { gateway, proxy } = kit;
  proxy.limit(16 * mebi);
  const before = proxy.counts.down.bytes;
  const put = spawnProgram(
    ["files", "put", local.join("big.bin"), `devbox:/app/${path}`, "--if-match", "any", "--json"],
    { home: gateway.home },
  );
  try {
    await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(crossedBytes);
    return put;
  } catch (error) {
    await put[Symbol.asyncDispose]();
    throw error;
  }
}

/** What nobody can go on with. */
const isLeftover = (name: string): boolean => name.includes(".fairlead-") && !name.includes("-stage-kept-");

test.each([
  { what: "a file that was there stays as it was", path: "deep/old.bin", crossed: 24 * mebi },
  { what: "a file that was not there is not there", path: "deep/new.bin", crossed: 40 * mebi },
  { what: "a file whose folders were made for it is not there", path: "made/for/new.bin", crossed: 8 * mebi },
])("a node killed in the middle of a put: $what", patience, async ({ path, crossed }) => {
  const { gateway, proxy } = kit;
  await using put = await putUntil(crossed, path);
  expect((await workspace.entries()).some((name) => name.includes(".fairlead-stage-"))).toBe(true);
  await node.kill("SIGKILL");
  proxy.mend();
  const left = (await workspace.entries()).filter((name) => !name.includes(".fairlead-stage-"));
  expect(left.filter((name) => name.endsWith(".bin"))).toEqual(["deep/old.bin"]);
  expect(await workspace.text("deep/old.bin")).toBe("old content");

  // What a listing shows meanwhile is that the node is away, and why.
  expect(faultOf(await gateway.cli(["files", "ls", "devbox:/app", "--json"]))).toMatchObject({
    exitCode: 5,
    code: "WORKSPACE_ACCESS_UNAVAILABLE",
    retryable: true,
    details: { reason: "node_offline" },
  });
  // Left to itself it would go on once the node is back.
  expect((await put.kill("SIGINT")).exitCode).toBe(130);
  await node.restart();
  expect((await workspace.entries()).filter(isLeftover)).toEqual([]);
  expect(await workspace.text("deep/old.bin")).toBe("old content");
});

test("a tree that was on its way when the node was killed goes on", patience, async () => {
  const { gateway, proxy } = kit;
  proxy.limit(16 * mebi);
  const before = proxy.counts.down.bytes;
  await using tree = await makeTempWorkspace({ "one.txt": "1", "two.bin": big });
  await using put = spawnProgram(["files", "put", tree.path, "devbox:/app/tree", "--json"], {
    home: gateway.home,
  });
  await expect.poll(() => proxy.counts.down.bytes - before, slowly).toBeGreaterThan(16 * mebi);
  await node.kill("SIGKILL");
  proxy.mend();
  await node.restart();
  // It goes on with what is not there yet.
  expect((await put.ended).exitCode).toBe(0);
  expect(digestOf(await workspace.bytes("tree/two.bin"))).toBe(digestOf(big));
});

test("the same put afterwards stores the whole file", patience, async () => {
  const { gateway } = kit;
  const args = ["files", "put", local.join("big.bin"), "devbox:/app/deep/old.bin", "--if-match", "any"];
  expect(await gateway.json(args, { timeoutMs: 90_000 })).toMatchObject({
    digest: digestOf(big),
  });
  expect(digestOf(await workspace.bytes("deep/old.bin"))).toBe(digestOf(big));
  expect((await workspace.entries()).filter(isLeftover)).toEqual([]);
});

test("a node killed in the middle of a get leaves nothing under the local name", patience, async () => {
  const { gateway, proxy } = kit;
  proxy.limit(16 * mebi);
  const before = proxy.counts.up.bytes;
  await using get = spawnProgram(
    ["files", "get", "devbox:/app/deep/old.bin", local.join("got.bin"), "--json", "--deadline", "60s"],
    { home: gateway.home },
  );
  await expect.poll(() => proxy.counts.up.bytes - before, slowly).toBeGreaterThan(24 * mebi);
  await node.kill("SIGKILL");
  proxy.mend();
  await node.restart();
  // A read may be repeated over the next link; whichever way it ends, what stands there is whole.
  const { exitCode } = await get.ended;
  const names = (await local.entries()).filter((name) => name !== "big.bin");
  expect(names).toEqual(exitCode === 0 ? ["got.bin"] : []);
});
