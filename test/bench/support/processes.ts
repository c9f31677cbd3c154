import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { access, constants, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { raceSignal, startDeadline, systemClock } from "../../../shared/lifetime/clock.ts";

/** The kernel counts processor time in these. */
const ticksPerSecond = 100;

/** Processor time that a process and the children it has waited for have used, in seconds; 0 once it is gone. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return Number.isFinite(ticks) ? ticks / ticksPerSecond : 0;
}

/** The most resident memory that a process had since `resetPeak`, in bytes; 0 once it is gone. */
export async function peakBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}

/** Forgets the peak so far. */
export async function resetPeak(pid: number): Promise<void> {
  await writeFile(`/proc/${pid}/clear_refs`, "5").catch(() => undefined);
}

/** Where a program of this name is, if it is installed. */
export async function findProgram(name: string): Promise<string | undefined> {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  for (const folder of folders) {
    const path = join(folder, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
}

/** What a command used. */
export interface CommandUse {
  readonly wallMs: number;
  /** Of the command and its children, in seconds. */
  readonly cpuSeconds: number;
}

/** Runs a command to its end and measures it; fails unless it exits 0. */
export async function runMeasured(
  argv: readonly string[],
  options: { readonly timeoutMs: number },
): Promise<CommandUse> {
  const script = 'TIMEFORMAT="cpu %U %S"; time "$@"';
  const startedAt = performance.now();
  const child = spawn("/bin/bash", ["-c", script, "bash", ...argv], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-20_000);
  });
  const code = await endOf(child, options.timeoutMs);
  const wallMs = performance.now() - startedAt;
  const [, user, system] = /cpu (\S+) (\S+)\s*$/.exec(said) ?? [];
  if (code !== 0) throw new Error(`${argv.join(" ")} exited ${code}: ${said}`);
  return { wallMs, cpuSeconds: Number(user ?? 0) + Number(system ?? 0) };
}

async function endOf(child: ChildProcess, timeoutMs: number): Promise<number | null> {
  using deadline = startDeadline({ timeoutMs });
  try {
    await raceSignal(once(child, "close"), deadline.signal);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  return child.exitCode;
}

/** A server that the bench started. Disposing ends it. */
export interface Server extends AsyncDisposable {
  readonly pid: number;
}

/** Starts a server in the foreground and waits until its port takes connections. */
export async function startServer(argv: readonly [string, ...string[]], port: number): Promise<Server> {
  const [file, ...args] = argv;
  const child = spawn(file, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-20_000);
  });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${file} could not be started`);
  const ended = once(child, "close");
  const server: Server = {
    pid,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
  const giveUpAt = systemClock.now() + 10_000;
  while (!(await takesConnections(port))) {
    if (child.exitCode !== null || systemClock.now() > giveUpAt) {
      await server[Symbol.asyncDispose]();
      throw new Error(`${argv.join(" ")} does not listen: ${said}`);
    }
    await systemClock.sleep(50);
  }
  return server;
}

async function takesConnections(port: number): Promise<boolean> {
  const { connect } = await import("node:net");
  const socket = connect({ host: "127.0.0.1", port });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** A loopback port that nobody uses at this moment. */
export async function freePort(): Promise<number> {
  const { createServer } = await import("node:net");
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address === "object" && address) return address.port;
  throw new Error("no port was given");
}
