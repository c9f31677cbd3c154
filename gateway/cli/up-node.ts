import { access } from "node:fs/promises";
import path from "node:path";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { raceSignal, startDeadline } from "../../shared/lifetime/clock.ts";
import { type OwnProgram, type OwnProgramEnd, startOwnProgram } from "../../shared/process/own-program.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import type { OpenGateway } from "./open-gateway.ts";

/** The node of this machine, a process of its own. Disposing ends it. */
export interface LocalNode extends AsyncDisposable {
  /** Resolves with why, when it ends by itself. */
  readonly ended: Promise<Fault>;
}

/** What the node is started for. */
export interface LocalNodeOptions {
  readonly gateway: OpenGateway;
  /** What it exports as `main`, to be read and written. */
  readonly folder: string;
}

const alias = "local";
const readyTimeoutMs = 30_000;

/** Starts this machine's node, in a home of its own, and waits until what it exports is published. */
export async function startLocalNode(runtime: Runtime, options: LocalNodeOptions): Promise<LocalNode> {
  const home = path.join(runtime.home.dir, "local");
  const program = await startNode(runtime, home, options);
  try {
    await waitUntilReady(program, runtime);
  } catch (error) {
    await program[Symbol.asyncDispose]();
    throw error;
  }
  return {
    ended: program.ended.then((end) => toFault(end)),
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  };
}

/** Starts the agent: joining when this gateway does not know it. A first start needs one process, not five. */
async function startNode(runtime: Runtime, home: string, options: LocalNodeOptions): Promise<OwnProgram> {
  const { gateway, folder } = options;
  const deny = closedParts(folder, runtime.home.dir);
  if (!(await exists(path.join(home, "node"))) && deny.length === 0) {
    return await startJoining(runtime, { home, gateway, more: ["--workspace", `main=${folder}:rw`] });
  }
  const isKnown = await isPaired(runtime, gateway, home);
  await placeExport(runtime, home, { folder, deny });
  if (isKnown) return start(runtime, { home, args: ["run", "--until-stdin-ends"] });
  return await startJoining(runtime, { home, gateway, more: [] });
}

async function exists(file: string): Promise<boolean> {
  return await access(file).then(
    () => true,
    () => false,
  );
}

/** Whether the node is known on both sides: the gateway has it, and its home has an identity of it. */
async function isPaired(runtime: Runtime, gateway: OpenGateway, home: string): Promise<boolean> {
  const status = await runNode(runtime, home, ["status"]);
  const nodeId = readField(status.json, "nodeId");
  if (nodeId === undefined) return false;
  try {
    const { node } = await gateway.client(Admin).getNode({ node: nodeId }, gateway.call());
    return node !== undefined && node.state !== "revoked";
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return false;
    throw error;
  }
}

interface Joining {
  readonly home: string;
  readonly gateway: OpenGateway;
  /** More arguments. */
  readonly more: readonly string[];
}

/** What an earlier pairing left is no longer known to this gateway: the machine becomes a new node. */
async function startJoining(runtime: Runtime, { home, gateway, more }: Joining): Promise<OwnProgram> {
  const invite = { alias, profile: "full", uses: 1 };
  const { code } = await gateway.client(Admin).createInvite(invite, gateway.call());
  const args = ["join", "-", "--new-identity", "--exec", "full", "--until-stdin-ends", ...more];
  return start(runtime, { home, args, input: `${code}\n` });
}

/** Writes the export into the node's configuration, unless it stands there. */
async function placeExport(runtime: Runtime, home: string, wanted: Export): Promise<void> {
  const { json } = await runNode(runtime, home, ["workspace", "ls"]);
  const present = findMain(json);
  if (present && isSameExport(present, wanted)) return;
  if (present) await runNode(runtime, home, ["workspace", "rm", "main"]);
  const denied = wanted.deny.flatMap((glob) => ["--deny", glob]);
  const add = ["workspace", "add", "main", wanted.folder, "--write", "**", ...denied];
  const { exitCode, json: answer } = await runNode(runtime, home, add);
  if (exitCode !== 0) throw toFault({ exitCode, signal: null }, answer);
}

/** A home that lies in the folder stays closed: the node knows only its own part of it. */
function closedParts(folder: string, homeDir: string): readonly string[] {
  const below = path.relative(folder, homeDir).replaceAll(path.sep, "/");
  if (below === "" || below.startsWith("..") || path.isAbsolute(below)) return [];
  if (!/[*?{}!\\]/.test(below)) return [below, `${below}/**`];
  throw new Fault(
    "INVALID_ARGUMENT",
    `the home ${homeDir} lies in the folder, and its name cannot be written as a glob`,
    {
      hint: "choose another home with --home",
      details: { field: "home" },
    },
  );
}

interface Export {
  readonly folder: string;
  readonly deny: readonly string[];
}

function findMain(json: unknown): object | undefined {
  const workspaces = json !== null && typeof json === "object" && "workspaces" in json ? json.workspaces : [];
  if (!Array.isArray(workspaces)) return undefined;
  const found: unknown = workspaces.find((one: unknown) => readField(one, "name") === "main");
  return typeof found === "object" && found !== null ? found : undefined;
}

function isSameExport(present: object, { folder, deny }: Export): boolean {
  const known = "deny" in present ? present.deny : [];
  return readField(present, "dir") === folder && JSON.stringify(known) === JSON.stringify(deny);
}

interface NodeCommand {
  readonly home: string;
  readonly args: readonly string[];
  readonly input?: string;
}

function start(runtime: Runtime, { home, args, input }: NodeCommand): OwnProgram {
  return startOwnProgram({
    entry: runtime.entry,
    args: ["node", ...args, "--home", home, "--json"],
    env: toEnvironment(),
    clock: runtime.clock,
    ...(input === undefined ? {} : { input }),
  });
}

/** The node gets this user's environment without what belongs to the gateway's side. */
function toEnvironment(): Record<string, string> {
  const {
    FAIRLEAD_TOKEN: _token,
    FAIRLEAD_HOME: _home,
    FAIRLEAD_GATEWAY: _gateway,
    FAIRLEAD_EMBEDDINGS_KEY: _embeddingsKey,
    ...rest
  } = process.env;
  return Object.fromEntries(
    Object.entries(rest).flatMap(([name, value]): [string, string][] =>
      value === undefined ? [] : [[name, value]],
    ),
  );
}

interface NodeAnswer {
  readonly exitCode: number | null;
  readonly json: unknown;
}

/** Runs one short command of the node's side to its end. */
async function runNode(runtime: Runtime, home: string, args: readonly string[]): Promise<NodeAnswer> {
  await using program = start(runtime, { home, args });
  using deadline = startDeadline({ timeoutMs: readyTimeoutMs, signal: runtime.signal, clock: runtime.clock });
  const lines: string[] = [];
  const reading = (async (): Promise<OwnProgramEnd> => {
    for await (const line of program.lines) lines.push(line);
    return await program.ended;
  })();
  const { exitCode } = await raceSignal(reading, deadline.signal);
  return { exitCode, json: parseOrUndefined(lines.join("\n")) };
}

async function waitUntilReady(program: OwnProgram, runtime: Runtime): Promise<void> {
  using deadline = startDeadline({
    timeoutMs: readyTimeoutMs,
    signal: runtime.signal,
    clock: runtime.clock,
    fault: () =>
      new Fault("DEADLINE_EXCEEDED", `this machine's node was not ready within ${readyTimeoutMs} ms`),
  });
  let said: unknown;
  const reading = (async (): Promise<boolean> => {
    for await (const line of program.lines) {
      said = parseOrUndefined(line);
      if (readField(said, "event") === "ready") return true;
    }
    return false;
  })();
  if (await raceSignal(reading, deadline.signal)) return;
  throw toFault(await program.ended, said);
}

function toFault(end: OwnProgramEnd, said?: unknown): Fault {
  const error = typeof said === "object" && said !== null && "error" in said ? said.error : undefined;
  const how = end.signal === null ? `with status ${end.exitCode}` : `by ${end.signal}`;
  const why = readField(error, "message");
  const code = readField(error, "code");
  return new Fault("NODE_OFFLINE", `this machine's node ended ${how}${why === undefined ? "" : `: ${why}`}`, {
    details: code === undefined ? {} : { code },
    hint: readField(error, "hint") ?? "its own messages stand above",
  });
}

function readField(value: unknown, name: string): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const field: unknown = Object.getOwnPropertyDescriptor(value, name)?.value;
  return typeof field === "string" ? field : undefined;
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
