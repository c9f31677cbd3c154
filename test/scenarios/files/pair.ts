import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { vi } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { startFaultProxy, type FaultProxy } from "../../support/fault-proxy.ts";
import type { CliOptions, CliResult } from "../../support/run-cli.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace, type TreeOfFiles } from "../../support/temp-workspace.ts";

/** What stands between the tests of files and the real programs. */
export interface FilesPairOptions {
  /** What the workspace `app` holds at first. */
  readonly files?: TreeOfFiles;
  readonly profile?: "read" | "work" | "full";
  /** Exported to be read only. */
  readonly readOnly?: boolean;
  /** Runs the agent as this user, who owns the workspace. */
  readonly uid?: number;
  /** The node dials through a line that can be broken. */
  readonly throughProxy?: boolean;
  /** The text of the gateway's configuration. */
  readonly config?: string;
  /** Options of Node for the agent. */
  readonly nodeArgs?: readonly string[];
  /** Added to the environment of the gateway. */
  readonly gatewayEnv?: Readonly<Record<string, string>>;
  /** The text of the node's configuration, which exports the folder `dir` as `app` by itself. */
  readonly nodeConfig?: (dir: string) => string;
}

/** A gateway, a node that exports `app`, and a client of the gateway's files. */
export interface FilesPair extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly node: TestNode;
  readonly workspace: TempWorkspace;
  readonly proxy: FaultProxy | undefined;
  /** As the command line calls it, over the administrators' socket. */
  readonly client: Client<typeof Files>;
  /** Puts a text into the policy file, and waits until it is in force. */
  setPolicy(text: string): Promise<void>;
  /** Runs `fairlead files …`. */
  files(args: readonly string[], options?: Partial<CliOptions>): Promise<CliResult>;
}

/** Starts both, the real programs, and waits until the workspace can be used. */
export async function startFilesPair(options: FilesPairOptions = {}): Promise<FilesPair> {
  await using stack = new AsyncDisposableStack();
  const owner = options.uid === undefined ? {} : { ownerUid: options.uid };
  const workspace = stack.use(await makeTempWorkspace(options.files ?? {}, owner));
  const proxy =
    options.throughProxy === true ? stack.use(await startFaultProxy({ targetPort: 1 })) : undefined;
  const args = proxy ? ["--advertise", `127.0.0.1:${proxy.port}`] : [];
  if (options.config !== undefined) {
    const folder = stack.use(await makeTempFolder());
    await writeFile(folder.join("config.yaml"), options.config);
    args.push("--config", folder.join("config.yaml"));
  }
  const gateway = stack.use(
    await startGateway({ args, ...(options.gatewayEnv ? { env: options.gatewayEnv } : {}) }),
  );
  proxy?.retarget(Number(gateway.link.split(":").at(-1)));
  const home = options.nodeConfig
    ? stack.use(await makeNodeHome(options.nodeConfig(workspace.path))).path
    : undefined;
  const node = stack.use(
    await startNode({
      gateway,
      ...(home === undefined
        ? { workspaces: { app: options.readOnly === true ? workspace.path : `${workspace.path}:rw` } }
        : { home }),
      profile: options.profile ?? "work",
      ...(options.uid === undefined ? {} : { uid: options.uid }),
      ...(options.nodeArgs ? { nodeArgs: options.nodeArgs } : {}),
    }),
  );
  const socket = await findAdminSocket(join(gateway.home, "gateway"));
  const channel = stack.use(openGrpcClient({ address: `unix:${socket}`, security: "insecure" }));
  const owned = stack.move();
  return {
    gateway,
    node,
    workspace,
    proxy,
    client: channel.client(Files),
    setPolicy: (text) => setPolicy(gateway, text),
    files: (words, more) => gateway.cli(["files", ...words], { timeoutMs: 120_000, ...more }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function makeNodeHome(config: string): Promise<TempFolder> {
  const home = await makeTempFolder();
  await mkdir(home.join("node"), { mode: 0o700 });
  await writeFile(home.join("node", "config.yaml"), config);
  return home;
}

/** Each policy that is taken is told in the log. */
async function setPolicy(gateway: TestGateway, text: string): Promise<void> {
  const file = join(gateway.home, "gateway", "policy.yaml");
  if ((await readFile(file, "utf8").catch(() => "")) === text) return;
  const taken = (): number => gateway.logs().split("another policy is in force").length;
  const before = taken();
  await writeFile(file, text);
  await vi.waitUntil(() => taken() > before, { timeout: 10_000, interval: 20 });
}

/** The fault of `--json` output. */
export function errorOf(result: Pick<CliResult, "json">): {
  readonly code: string;
  readonly details: Record<string, unknown>;
} {
  const { error } = result.json as { error: { code: string; details: Record<string, unknown> } };
  return error;
}
