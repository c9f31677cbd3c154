import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { isProcessAlive } from "../../shared/process/process-mark.ts";
import {
  onMessages,
  sendMessage,
  supervisorProtocol,
  type FromSupervisor,
  type RunningJob,
  type ToSupervisor,
} from "./messages.ts";
import { maxAddressBytes, supervisorsFolder, type SupervisorNote } from "./supervisor.ts";

/** A supervisor that this agent speaks with. */
export interface SupervisorLink {
  readonly name: string;
  readonly note: SupervisorNote;
  /** What it ran when the agent came. */
  readonly running: readonly RunningJob[];
  send(message: ToSupervisor): void;
  /** Hands over what it says from now on. */
  hear(listener: (message: FromSupervisor) => void): void;
  /** Resolves when it speaks no more; never rejects. */
  readonly closed: Promise<void>;
  /** Leaves it: jobs go on, and one without jobs ends. */
  leave(): void;
}

/** How a supervisor is started. */
export interface LaunchOptions {
  readonly jobsDir: string;
  readonly version: string;
  readonly unlinkedMs: number;
  readonly clock: Clock;
}

const startMs = 20_000;
const helloMs = 5_000;

/** The supervisors of a node that run, of whatever version; what is left of others is removed. */
export async function findSupervisors(jobsDir: string): Promise<readonly FoundSupervisor[]> {
  const folder = supervisorsFolder(jobsDir);
  const names = await readdir(folder).catch(() => []);
  const found: FoundSupervisor[] = [];
  for (const file of names.filter((name) => name.endsWith(".json"))) {
    const name = file.slice(0, -".json".length);
    const note = await readNote(join(folder, file));
    if (note && isProcessAlive(note.mark)) found.push({ name, note });
    else for (const ending of [".sock", ".json"]) await rm(join(folder, name + ending), { force: true });
  }
  return found;
}

/** A supervisor by its file. */
export interface FoundSupervisor {
  readonly name: string;
  readonly note: SupervisorNote;
}

async function readNote(path: string): Promise<SupervisorNote | undefined> {
  try {
    // Our own file in our own folder; one that is being written cannot be read yet.
    return JSON.parse(await readFile(path, "utf8")) as SupervisorNote;
  } catch {
    return undefined;
  }
}

/** Starts a supervisor of this version, and speaks with it. */
export async function launchSupervisor(options: LaunchOptions): Promise<SupervisorLink> {
  const { jobsDir, version, clock } = options;
  const folder = supervisorsFolder(jobsDir);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const name = randomBytes(6).toString("hex");
  // Built or not, the entry lies beside this file and has its ending.
  const here = import.meta.url;
  const entry = fileURLToPath(new URL(`supervise${extname(fileURLToPath(here))}`, here));
  await using log = await open(join(folder, "supervisor.log"), "w", 0o600);
  const child = spawn(process.execPath, [entry, jobsDir, name, version, String(options.unlinkedMs)], {
    cwd: folder,
    env: {},
    // A session of its own: what ends the agent does not end it.
    detached: true,
    stdio: ["ignore", "pipe", log.fd],
  });
  try {
    await untilReady(child, clock);
  } catch (error) {
    child.kill("SIGKILL");
    throw new Fault("IO_ERROR", "the supervisor of jobs could not be started", {
      hint: "look at jobs/supervisors/supervisor.log in the folder of the node's state",
      cause: error,
    });
  } finally {
    child.stdout?.destroy();
    child.unref();
  }
  const note = await readNote(join(folder, `${name}.json`));
  const link = note && (await connectSupervisor({ name, note }, { jobsDir, clock }));
  if (link) return link;
  throw new Fault("IO_ERROR", "the supervisor of jobs ended at its start", { retryable: true });
}

async function untilReady(child: ChildProcess, clock: Clock): Promise<void> {
  using deadline = startDeadline({ timeoutMs: startMs, clock });
  const ready = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => reject(new Error(`it ended with ${signal ?? code}`)));
    child.stdout?.once("data", () => resolve());
  });
  await raceSignal(ready, deadline.signal);
}

/** Speaks with a supervisor that runs; undefined when it has ended meanwhile or does not answer. */
export async function connectSupervisor(
  { name, note }: FoundSupervisor,
  { jobsDir, clock }: { readonly jobsDir: string; readonly clock: Clock },
): Promise<SupervisorLink | undefined> {
  const socket = await openSocket(supervisorsFolder(jobsDir), name);
  if (!socket) return undefined;
  const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
  const hello = Promise.withResolvers<readonly RunningJob[] | undefined>();
  const early: FromSupervisor[] = [];
  let listener: (message: FromSupervisor) => void = (message) => void early.push(message);
  onMessages(socket, (message) => {
    // What speaks there is our own program; its hello says in which version of these messages.
    const said = message as FromSupervisor;
    if (said.kind === "hello") hello.resolve(said.protocol === supervisorProtocol ? said.running : undefined);
    else listener(said);
  });
  void closed.then(() => hello.resolve(undefined));
  using deadline = startDeadline({ timeoutMs: helloMs, clock });
  const running = await raceSignal(hello.promise, deadline.signal).catch(() => undefined);
  if (!running) {
    socket.destroy();
    return undefined;
  }
  return {
    name,
    note,
    running,
    closed,
    send: (message) => sendMessage(socket, message),
    hear: (next) => {
      listener = next;
      for (const message of early.splice(0)) next(message);
    },
    leave: () => {
      sendMessage(socket, { kind: "leave" });
      socket.end();
    },
  };
}

async function openSocket(folder: string, name: string): Promise<Socket | undefined> {
  const whole = join(folder, `${name}.sock`);
  if (Buffer.byteLength(whole) <= maxAddressBytes) return await tryConnect(whole);
  // Longer than an address may be: through the open folder.
  await using held = await open(folder, "r");
  return await tryConnect(`/proc/self/fd/${held.fd}/${name}.sock`);
}

function tryConnect(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("error", () => resolve(undefined));
    socket.once("connect", () => {
      socket.removeAllListeners("error");
      socket.on("error", () => undefined);
      resolve(socket);
    });
  });
}
