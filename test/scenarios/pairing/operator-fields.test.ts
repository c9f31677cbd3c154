import { readFile } from "node:fs/promises";
import { expect } from "vitest";
import { startAgent, type Agent } from "../../../node-agent/agent.ts";
import type { NodeSettings } from "../../../node-agent/config/node-settings.ts";
import { nodeLimitDefaults } from "../../../node-agent/config/node-settings.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { loadIdentity } from "../../../node-agent/pairing/identity.ts";
import { dialTls } from "../../../node-agent/pairing/tls.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { CallClass } from "../../../shared/gen/fairlead/v1/options_pb.ts";
import { Tools } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { proves } from "../../support/proves.ts";
import { grantRead } from "../../support/standing-grant.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { joinAs } from "./pairing-gateway.ts";

interface ShownNode {
  readonly id: string;
  readonly alias: string;
  readonly state: string;
  readonly labels: object;
  readonly profile: string;
  readonly tools: number;
  readonly version: string;
  readonly hostName: string;
  readonly generation: number;
}

async function show(gateway: TestGateway, node: string): Promise<ShownNode> {
  return (await gateway.json(["nodes", "show", node])) as ShownNode;
}

interface MachineOptions {
  readonly version: string;
  readonly hostName: string;
  readonly workspace: string;
}

/** The agent of a joined machine, as of some version and on a host of some name; ready when it resolves. */
async function startMachine(home: TempFolder, options: MachineOptions): Promise<Agent> {
  const settings: NodeSettings = {
    homeDir: home.path,
    dir: home.join("node"),
    configFile: home.join("node", "config.yaml"),
    workspaces: [
      {
        name: "app",
        dir: options.workspace,
        read: ["**"],
        write: [],
        deny: [],
        remove: false,
        move: false,
        mkdir: false,
        followSymlinks: false,
        allowHardLinks: false,
        maxFileBytes: undefined,
      },
    ],
    exec: { mode: "off", allow: [] },
    installs: { allow: false, registry: "https://registry.npmjs.org/" },
    path: process.env["PATH"] ?? "",
    limits: nodeLimitDefaults,
  };
  const agent = await startAgent(settings, {
    clock: systemClock,
    log: silentLog,
    version: options.version,
    hostName: options.hostName,
    readSettings: async () => settings,
    environment: { HOME: home.path, PATH: settings.path },
  });
  await agent.ready;
  return agent;
}

/** The machine's link with nothing behind it but so many tools. */
async function linkWithTools(home: TempFolder, count: number): Promise<AsyncDisposable> {
  const identity = await loadIdentity(home.join("node"));
  const board = createPublicationBoard();
  const listed = { epoch: 1n, digest: digestOf(`${count} tools`) };
  const tools = Array.from({ length: count }, (_, index) => ({
    name: `tool${index}`,
    title: "A tool",
    description: "Does something.",
    inputSchemaJson: '{"type":"object"}',
    callClass: CallClass.AT_MOST_ONCE,
    effect: "execute",
  }));
  board.publish({ ...listed, publication: PublicationKind.TOOLS });
  return startLink({
    addresses: identity.addresses,
    loadTls: () => dialTls(identity),
    services: [serve(Tools, { listPublished: async () => ({ ...listed, tools }) })],
    publications: board,
    agentVersion: "2.0.0",
    hostName: "two",
  });
}

proves(
  ["pairing.invite-sets-alias-labels-profile", "pairing.operator-fields-kept"],
  "what administrators set is the node's from its first link on, whatever the machine says then and later",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    const labels = ["--label", "env=dev", "--label", "team=build"];
    const code = await inviteCode(gateway, ["--name", "devbox", "--profile", "work", ...labels]);
    await joinAs(code, home, { wishedAlias: "mine", hostName: "one" });
    const machine = { workspace: workspace.path };
    let first: ShownNode;
    {
      await using _ = await startMachine(home, { ...machine, version: "1.0.0", hostName: "one" });
      first = await show(gateway, "devbox");
      expect(first).toMatchObject({
        state: "online",
        alias: "devbox",
        labels: { env: "dev", team: "build" },
        profile: "work",
        version: "1.0.0",
        hostName: "one",
      });
      await gateway.json(["nodes", "label", "devbox", "env=prod", "rack=7", "team-"]);
      await gateway.json(["nodes", "rename", "devbox", "buildbox"]);
      await gateway.json(["nodes", "note", "buildbox", "rack 7, third from the top"]);
      // The link that was there stays, with everything else.
      expect(await show(gateway, "buildbox")).toMatchObject({
        id: first.id,
        state: "online",
        generation: first.generation,
        labels: { env: "prod", rack: "7" },
      });
      expect((await gateway.cli(["nodes", "show", "devbox"])).exitCode).toBe(4);
    }
    const certificate = await readFile(home.join("node/identity/cert.pem"), "utf8");
    const kept = {
      id: first.id,
      state: "online",
      alias: "buildbox",
      labels: { env: "prod", rack: "7" },
      profile: "work",
      note: "rack 7, third from the top",
      version: "2.0.0",
      hostName: "two",
    };
    {
      await using _ = await startMachine(home, { ...machine, version: "2.0.0", hostName: "two" });
      const later = await show(gateway, "buildbox");
      expect(later).toMatchObject(kept);
      expect(later.generation).toBeGreaterThan(first.generation);
    }
    const tools = first.tools + 5;
    await using _ = await linkWithTools(home, tools);
    const shown = async (): Promise<number> => (await show(gateway, "buildbox")).tools;
    await expect.poll(shown, { timeout: 30_000 }).toBe(tools);
    expect(await show(gateway, "buildbox")).toMatchObject(kept);
    // Neither the new alias nor the new host name is a reason for another certificate.
    expect(await readFile(home.join("node/identity/cert.pem"), "utf8")).toBe(certificate);
  },
);

proves(
  "pairing.rename-keeps-identity",
  "a renamed node is the same with all that is its own, and neither name nor host name is in its certificate",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    await joinAs(await inviteCode(gateway, ["--name", "devbox", "--label", "env=dev"]), home);
    const machine = { workspace: workspace.path, version: "1.0.0" };
    const certificateIn = (): Promise<string> => readFile(home.join("node/identity/cert.pem"), "utf8");
    const certificate = await certificateIn();
    {
      await using _ = await startMachine(home, { ...machine, hostName: "one" });
      const grant = await grantRead(gateway, "devbox:/app/a.txt");
      const { id, generation, labels } = await show(gateway, "devbox");
      expect((await gateway.cli(["nodes", "rename", "devbox", "buildbox"])).exitCode).toBe(0);
      expect(await show(gateway, "buildbox")).toMatchObject({ id, generation, labels, state: "online" });
      expect(await grant.list()).toMatchObject([{ nodeId: id, node: "buildbox" }]);
      expect(await grant.readsAt("buildbox:/app/a.txt")).toBe(true);
      const old = await gateway.cli(["nodes", "show", "devbox", "--json"]);
      expect(old).toMatchObject({ exitCode: 4, json: { error: { code: "NOT_FOUND" } } });
    }
    await using _ = await startMachine(home, { ...machine, hostName: "two" });
    expect(await show(gateway, "buildbox")).toMatchObject({ state: "online", hostName: "two" });
    expect(await certificateIn()).toBe(certificate);
  },
);
