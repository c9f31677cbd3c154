import type { Socket } from "node:net";
import type { Command, OutputStream } from "../../shared/process/run-command.ts";
import type { FaultNote, JobAbout, JobExit } from "./job-record.ts";

/** What an agent and its supervisor speak; a supervisor of another number only finishes what it has. */
export const supervisorProtocol = 1;

/** How a job is to run. */
export interface JobStart {
  readonly id: string;
  readonly about: JobAbout;
  readonly command: Command;
  /** The folder to start in. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** What the command reads, in base64. */
  readonly stdin?: string | undefined;
  /** The command's own time, in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** The job is ended after so many milliseconds, whoever waits for it. */
  readonly deadlineMs: number;
}

/** From an agent. */
export type ToSupervisor =
  | { readonly kind: "start"; readonly job: JobStart }
  | { readonly kind: "end"; readonly id: string; readonly fault: FaultNote }
  /** Whether the agent's link is up: without one, jobs have a limited time. */
  | { readonly kind: "link"; readonly isUp: boolean }
  /** A reader of a job has taken so much; what it has not taken is kept while it reads. */
  | {
      readonly kind: "taken";
      readonly id: string;
      readonly reader: number;
      readonly stdout: number;
      readonly stderr: number;
    }
  | { readonly kind: "left"; readonly id: string; readonly reader: number }
  /** The agent ends: a supervisor without jobs does too. */
  | { readonly kind: "leave" };

/** From a supervisor. */
export type FromSupervisor =
  | { readonly kind: "hello"; readonly protocol: number; readonly running: readonly RunningJob[] }
  | { readonly kind: "started"; readonly id: string; readonly pid: number }
  | { readonly kind: "refused"; readonly id: string; readonly fault: FaultNote }
  /** There is more output: so many bytes of a stream in all. */
  | { readonly kind: "grew"; readonly id: string; readonly stream: OutputStream; readonly sizeBytes: number }
  | { readonly kind: "ended"; readonly id: string; readonly exit: JobExit };

/** A job that a supervisor runs. */
export interface RunningJob {
  readonly id: string;
  readonly about: JobAbout;
  readonly pid: number;
  readonly startedAt: number;
  /** Bytes of output so far. */
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
}

/** A job's request holds at most one message of the link, twice as long in JSON. */
const maxFrameBytes = 32 * 1024 * 1024;

const prefixBytes = 4;

/** Sends a message, with its length before it. */
export function sendMessage(socket: Socket, message: ToSupervisor | FromSupervisor): void {
  if (socket.destroyed || socket.writableEnded) return;
  const body = Buffer.from(JSON.stringify(message));
  const prefix = Buffer.allocUnsafe(prefixBytes);
  prefix.writeUInt32BE(body.byteLength);
  socket.cork();
  socket.write(prefix);
  socket.write(body);
  socket.uncork();
}

/** Hands over each message that arrives; a socket that sends something else is destroyed. */
export function onMessages(socket: Socket, hear: (message: unknown) => void): void {
  let held: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    held = held.byteLength === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.byteLength >= prefixBytes) {
      const length = held.readUInt32BE(0);
      if (length > maxFrameBytes) return void socket.destroy();
      if (held.byteLength < prefixBytes + length) return;
      const body = held.subarray(prefixBytes, prefixBytes + length);
      held = held.subarray(prefixBytes + length);
      try {
        hear(JSON.parse(body.toString("utf8")));
      } catch {
        return void socket.destroy();
      }
    }
  });
}
