import { afterAll, beforeAll, expect } from "vitest";
import { faultOf, listOf } from "../../support/cli-fault.ts";
import { pairIdentity } from "../../support/paired-identity.ts";
import { proves } from "../../support/proves.ts";
import { playRecordedNode } from "../../support/recorded-node.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";

const patience = { timeout: 60_000 };
const soon = { timeout: 20_000, interval: 100 };
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway();
}, 60_000);

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
}, 30_000);

async function listed(alias: string): Promise<Record<string, unknown>> {
  const nodes = listOf(await gateway.json(["nodes", "ls"]), "nodes").map((node) => Object(node));
  return nodes.find((node) => node["alias"] === alias) ?? {};
}

proves(
  "link.one-version-back",
  "a recorded node one version behind, or ahead, links, is marked, and serves what both know under the same policy",
  patience,
  async () => {
    for (const { recording, alias, protocol, upgrade, mark, window } of [
      {
        recording: "protocol-2",
        alias: "behind",
        protocol: 2,
        upgrade: "node",
        mark: "0.0.9 (upgrade it)",
        window: { min: 1, max: 2 },
      },
      {
        recording: "protocol-4",
        alias: "ahead",
        protocol: 3,
        upgrade: "gateway",
        mark: "0.0.9 (upgrade this gateway)",
        window: { min: 3, max: 4 },
      },
    ]) {
      await using identity = await pairIdentity(gateway, { alias, profile: "read", protocol: window });
      await using node = await playRecordedNode(recording, identity);
      await expect.poll(async () => (await listed(alias))["tools"], soon).toBe(2);
      await expect.poll(async () => (await listed(alias))["workspaces"], soon).toEqual(["app"]);
      expect(await listed(alias)).toMatchObject({ state: "online", protocol, upgrade });
      expect((await gateway.cli(["nodes", "ls"])).stdout).toContain(mark);
      expect(node.protocol).toBe(protocol);

      // What both know is served.
      const stat = await gateway.json(["files", "stat", `${alias}:/app/a.txt`]);
      expect(JSON.stringify(stat)).toContain("a.txt");
      const board = await gateway.cli(["nodes", "call", alias, "board"]);
      expect(board.stdout + board.stderr).toContain("told by the recorded node");
      // Policy is the same: what a node that may only be read from publishes to be run never reaches it.
      const calls = node.called.length;
      const wipe = await gateway.cli(["nodes", "call", alias, "wipe", "--json"]);
      expect(faultOf(wipe)).toMatchObject({ code: "POLICY_DENIED", exitCode: 3 });
      // What it does not know is refused before it is sent.
      const list = await gateway.cli(["files", "ls", `${alias}:/app`, "--json"]);
      expect(faultOf(list)).toMatchObject({ code: "VERSION_UNSUPPORTED" });
      expect(node.called.slice(calls).filter((method) => !method.endsWith("/Stat"))).toEqual([]);
      expect(await listed(alias)).toMatchObject({ state: "online" });
    }
  },
);

proves(
  "link.outside-window",
  "a node two versions off is refused with both versions and the side to upgrade, and the list says so",
  patience,
  async () => {
    for (const [recording, alias, node, hint] of [
      ["protocol-1", "too-old", { min: 1, max: 1 }, "upgrade the node"],
      ["protocol-5", "too-new", { min: 4, max: 5 }, "upgrade the gateway"],
    ] as const) {
      await using identity = await pairIdentity(gateway, { alias });
      await using played = await playRecordedNode(recording, identity);
      expect(await played.closed).toMatchObject({
        code: "VERSION_UNSUPPORTED",
        hint,
        details: { gateway: { min: 2, max: 3 }, node },
      });
      expect(await listed(alias)).toMatchObject({ state: "offline", reason: "version_unsupported" });
      expect((await gateway.cli(["nodes", "ls"])).stdout).toContain("version unsupported");
    }
  },
);
