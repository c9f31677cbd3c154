import { type CliOptions, type CliResult, runCli } from "./run-cli.ts";
import { type Program, type ProgramEnd, spawnProgram } from "./spawn-program.ts";
import { makeTempFolder } from "./temp-folder.ts";

/** How a gateway is started. */
export interface StartGatewayOptions {
  /** Its home; a temporary one of its own by default. */
  readonly home?: string;
  /** More arguments of `gateway run`. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** How long a start may take, in milliseconds; a minute by default. */
  readonly readyWithinMs?: number;
}

/** The real gateway, in a process and a home of its own. Disposing ends it and fails when anything of it is left. */
export interface TestGateway extends AsyncDisposable {
  readonly home: string;
  /** Where nodes connect: `127.0.0.1:PORT`. The same after a restart. */
  readonly link: string;
  /** Where MCP is served: a URL. The same after a restart. */
  readonly http: string;
  /** Pin of its authority. */
  readonly pin: string;
  readonly pid: number;
  /** Runs a command in its home, with the program's own command line. */
  cli(args: readonly string[], options?: Partial<CliOptions>): Promise<CliResult>;
  /** The same with `--json`; fails unless it exits 0, and gives the document. */
  json(args: readonly string[], options?: Partial<CliOptions>): Promise<unknown>;
  /** Sends a signal and waits until the process has ended; it can be started again. */
  kill(signal: NodeJS.Signals): Promise<ProgramEnd>;
  /** Sends a signal and does not wait. */
  signal(signal: NodeJS.Signals): void;
  /** Starts it again at the same addresses, after it was killed or by ending it first. */
  restart(): Promise<void>;
  /** What it wrote to standard error. */
  logs(): string;
}

interface Ready {
  readonly link: string;
  readonly http: string;
  readonly pin: string;
}

/** Starts `fairlead gateway run` on free loopback ports and waits until it is ready. */
export async function startGateway(options: StartGatewayOptions = {}): Promise<TestGateway> {
  await using stack = new AsyncDisposableStack();
  const home = options.home ?? stack.use(await makeTempFolder()).path;
  const spawn = (listen: string, http: string): Program => {
    const args = ["gateway", "run", "--json", "--listen", listen, "--http", http, ...(options.args ?? [])];
    return spawnProgram(args, { home, ...(options.env ? { env: options.env } : {}) });
  };
  let program = spawn("127.0.0.1:0", "127.0.0.1:0");
  stack.defer(() => program[Symbol.asyncDispose]());
  const ready = await waitUntilReady(program, options.readyWithinMs);
  const cli = (args: readonly string[], more: Partial<CliOptions> = {}): Promise<CliResult> =>
    runCli(args, { home, ...(options.env ? { env: options.env } : {}), ...more });
  const owned = stack.move();
  return {
    home,
    ...ready,
    get pid() {
      return program.pid;
    },
    cli,
    json: (args, more) => expectJson(cli, args, more),
    kill: (signal) => program.kill(signal),
    signal: (signal) => program.signal(signal),
    restart: async () => {
      await program[Symbol.asyncDispose]();
      program = spawn(ready.link, new URL(ready.http).host);
      await waitUntilReady(program, options.readyWithinMs);
    },
    logs: () => program.stderr(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Runs a command with `--json`; fails unless it exits 0. */
export async function expectJson(
  cli: (args: readonly string[], options?: Partial<CliOptions>) => Promise<CliResult>,
  args: readonly string[],
  options?: Partial<CliOptions>,
): Promise<unknown> {
  const result = await cli([...args, "--json"], options);
  if (result.exitCode === 0) return result.json;
  throw new Error(
    `fairlead ${args.join(" ")} exited ${result.exitCode}:\n${result.stdout}\n${result.stderr}`,
  );
}

async function waitUntilReady(program: Program, withinMs?: number): Promise<Ready> {
  const line = await program.waitForLine((text) => text.includes('"event":"ready"'), withinMs);
  const ready: unknown = JSON.parse(line);
  if (typeof ready === "object" && ready !== null && "link" in ready && "http" in ready && "pin" in ready) {
    return { link: String(ready.link), http: String(ready.http), pin: String(ready.pin) };
  }
  throw new Error(`the ready line lacks an address: ${line}`);
}
