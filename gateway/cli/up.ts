import { type Fault, isFault } from "../../shared/fault/fault.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import { createCommandLog } from "../../shared/terminal/command-log.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { untilStopped } from "../../shared/terminal/interruption.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import {
  type GatewaySettings,
  readGatewayConfig,
  resolveGatewaySettings,
} from "../config/gateway-settings.ts";
import type { Gateway } from "../gateway.ts";
import { finishRestore } from "../store/finish-restore.ts";
import { openLocalGateway } from "./open-gateway.ts";
import { chooseUpFolder } from "./up-folder.ts";
import { startLocalNode } from "./up-node.ts";
import { openUpSession, type UpSession } from "./up-session.ts";
import { readUpState, writeUpState } from "./up-state.ts";

/** `up`: gateway, this machine as its node, a workspace and a session, in one step. */
export const commands: readonly CommandModule[] = [
  {
    words: "up",
    summary: "start a gateway, this machine as its node, and a session, in one step",
    example: "fairlead up ./my-project",
    args: [{ name: "[dir]", text: "the folder that becomes workspace main (default: here)" }],
    options: [
      { flags: "--port <n>", text: "port of the MCP address on loopback (default 7480)" },
      { flags: "--sample", text: "use a copy of the sample workspace, in the home" },
      { flags: "--no-open", text: "open no browser" },
    ],
    run: up,
  },
];

async function up(input: CommandInput, runtime: Runtime): Promise<number> {
  const folder = await chooseUpFolder(input, runtime);
  const settings = await readSettings(input, runtime);
  const log = createCommandLog(runtime);
  const { startGateway } = await import("../gateway.ts");
  const deps = {
    clock: runtime.clock,
    log,
    version: runtime.version,
    embeddingsKey: runtime.environment.embeddingsKey,
    environment: process.env,
    program: "fairlead up",
  };
  await using gateway = await startGateway(settings, deps).catch((error: unknown) => {
    throw withOwnHint(error);
  });
  await writeUpState(runtime.home, { linkAddress: gateway.addresses.link });
  await using connection = await openLocalGateway(runtime);
  await using node = await startLocalNode(runtime, { gateway: connection, folder });
  const session = await openUpSession(runtime, connection);
  await announce(runtime, { gateway, folder, session });
  const nodeEnded = node.ended.then((fault: Fault) => {
    throw fault;
  });
  return await untilStopped(
    runtime.signal,
    Promise.race([gateway.closed, nodeEnded.catch((fault: unknown) => fault)]),
  );
}

/** What to do about a taken port is said with options that `up` has. */
function withOwnHint(error: unknown): unknown {
  if (!isFault(error, "ALREADY_EXISTS")) return error;
  const isHttp = error.details["field"] === "http";
  return error.with({
    hint: isHttp
      ? "end it, or choose another port: fairlead up --port N"
      : "end that program: the nodes of this home find their gateway at this port; or choose another home with --home DIR",
  });
}

/** The link takes a port of its own, chosen once and kept: the local node finds its gateway there again. */
async function readSettings(input: CommandInput, runtime: Runtime): Promise<GatewaySettings> {
  const { gatewayDir } = runtime.home;
  const port = input.integer("port", { min: 0, max: 65_535 });
  const { linkAddress = "127.0.0.1:0" } = await readUpState(runtime.home);
  await finishRestore(gatewayDir);
  return resolveGatewaySettings(gatewayDir, await readGatewayConfig(gatewayDir), {
    listen: linkAddress,
    http: port === undefined ? undefined : `127.0.0.1:${port}`,
  });
}

interface UpParts {
  readonly gateway: Gateway;
  readonly folder: string;
  readonly session: UpSession;
}

async function announce(runtime: Runtime, { gateway, folder, session }: UpParts): Promise<void> {
  const { link, http } = gateway.addresses;
  const mcp = `${http}/mcp`;
  const snippet = {
    mcpServers: {
      fairlead: { type: "http", url: mcp, headers: { Authorization: `Bearer ${session.token}` } },
    },
  };
  const json = { event: "ready", link, http, mcp, pin: gateway.pin, folder, session: session.id, snippet };
  await runtime.output.event(json, () => [
    `gateway: link ${link}, pin ${gateway.pin}`,
    `workspace: local:/main is ${folder}`,
    `session: ${session.id}`,
    `mcp: ${mcp}`,
    "commands run on this machine without asking",
    "",
    "for an MCP client:",
    ...JSON.stringify(snippet, null, 2).split("\n"),
    "",
    "ready",
  ]);
}
