import { endSupervisors } from "./end-supervisors.ts";
import { type CliOptions, type CliResult, runCli } from "./run-cli.ts";
import { type Program, type ProgramEnd, type SpawnOptions, spawnProgram } from "./spawn-program.ts";
import { expectJson, type TestGateway } from "./start-gateway.ts";
import { makeTempFolder } from "./temp-folder.ts";

/** How a node is started. */
export interface StartNodeOptions {
  /** The gateway that it joins. */
  readonly gateway: TestGateway;
  /** What it exports: a name and a folder, with `:rw` at the folder's end when it may be written. */
  readonly workspaces?: Readonly<Record<string, string>>;
  /** How far commands go; none by default. */
  readonly exec?: "allow-list" | "ask" | "full";
  /** Its alias, given by the invite; `devbox` by default. */
  readonly alias?: string;
  /** Its profile, given by the invite. */
  readonly profile?: "read" | "work" | "full";
  /** Runs the agent as this user, in a home it owns; only root can. 65534 is nobody. */
  readonly uid?: number;
  /** Its home; a temporary one of its own by default. */
  readonly home?: string;
  /** More arguments of `node join`. */
  readonly args?: readonly string[];
  /** More arguments of `fairlead invite`. */
  readonly inviteArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Put before the entry: options of Node. */
  readonly nodeArgs?: readonly string[];
}

/** A real node, in a process and a home of its own. Disposing ends it and fails when anything of it is left. */
export interface TestNode extends AsyncDisposable {
  readonly home: string;
  readonly alias: string;
  readonly nodeId: string;
  readonly pid: number;
  /** Runs a command in its home, as its user. */
  cli(args: readonly string[], options?: Partial<CliOptions>): Promise<CliResult>;
  /** The same with `--json`; fails unless it exits 0, and gives the document. */
  json(args: readonly string[], options?: Partial<CliOptions>): Promise<unknown>;
  /** Sends a signal and waits until the process has ended; it can be started again. */
  kill(signal: NodeJS.Signals): Promise<ProgramEnd>;
  /** Sends a signal and does not wait: for SIGSTOP and SIGCONT. */
  signal(signal: NodeJS.Signals): void;
  /** `node run` in the same home; ends the process before, if it still runs. Waits for `ready` unless told not to. */
  restart(options?: { readonly waitForReady?: boolean }): Promise<void>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<ProgramEnd>;
  /** What it wrote to standard error. */
  logs(): string;
}

/** Makes a join code with the gateway's own command line. */
export async function inviteCode(gateway: TestGateway, args: readonly string[] = []): Promise<string> {
  const made = await gateway.json(["invite", ...args]);
  if (typeof made === "object" && made !== null && "code" in made && typeof made.code === "string")
    return made.code;
  throw new Error(`the invite has no code: ${JSON.stringify(made)}`);
}

/** Invites a machine, joins it with `fairlead node join` and waits until it is ready. */
export async function startNode(options: StartNodeOptions): Promise<TestNode> {
  await using stack = new AsyncDisposableStack();
  const { uid } = options;
  const folder =
    options.home ?? stack.use(await makeTempFolder(uid === undefined ? {} : { ownerUid: uid })).path;
  const spawnOptions: SpawnOptions = {
    home: folder,
    ...(options.env ? { env: options.env } : {}),
    ...(options.nodeArgs ? { nodeArgs: options.nodeArgs } : {}),
    ...(uid === undefined ? {} : { uid }),
  };
  const alias = options.alias ?? "devbox";
  const profile = options.profile === undefined ? [] : ["--profile", options.profile];
  const code = await inviteCode(options.gateway, [
    "--name",
    alias,
    ...profile,
    ...(options.inviteArgs ?? []),
  ]);
  let program = spawnProgram(joinArgs(options), { ...spawnOptions, stdin: code });
  stack.defer(() => endSupervisors(folder));
  stack.defer(() => program[Symbol.asyncDispose]());
  const { nodeId } = await waitUntilReady(program);
  const cli = (args: readonly string[], more: Partial<CliOptions> = {}): Promise<CliResult> =>
    runCli(args, { ...spawnOptions, ...more });
  const owned = stack.move();
  return {
    home: folder,
    alias,
    nodeId,
    get pid() {
      return program.pid;
    },
    get ended() {
      return program.ended;
    },
    cli,
    json: (args, more) => expectJson(cli, args, more),
    kill: (signal) => program.kill(signal),
    signal: (signal) => program.signal(signal),
    restart: async ({ waitForReady = true } = {}) => {
      await program[Symbol.asyncDispose]();
      program = spawnProgram(["node", "run", "--json"], spawnOptions);
      if (waitForReady) await waitUntilReady(program);
    },
    logs: () => program.stderr(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function joinArgs(options: StartNodeOptions): readonly string[] {
  const workspaces = Object.entries(options.workspaces ?? {}).flatMap(([name, dir]) => [
    "--workspace",
    `${name}=${dir}`,
  ]);
  const exec = options.exec === undefined ? [] : ["--exec", options.exec];
  return ["node", "join", "-", "--json", ...workspaces, ...exec, ...(options.args ?? [])];
}

async function waitUntilReady(program: Program): Promise<{ readonly nodeId: string }> {
  const line = await program.waitForLine((text) => text.includes('"event":"ready"'));
  const ready: unknown = JSON.parse(line);
  if (typeof ready === "object" && ready !== null && "nodeId" in ready)
    return { nodeId: String(ready.nodeId) };
  throw new Error(`the ready line lacks the node: ${line}`);
}
