import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "vitest";
import { programFile } from "../../support/program-file.ts";
import type { TestNode } from "../../support/start-node.ts";

/**
 * Runs a program with so many of the kernel's watches: the limit is that of a user namespace of its own, and each line of
 * its input sets another. Prints the program's process id first.
 */
const limited = `
  limit() { echo "$1" > /proc/sys/user/max_inotify_watches; }
  ulimit -n "$2"
  limit "$1"
  shift 2
  "$@" & echo "pid $!"
  while read -r line; do limit "$line"; done
  wait
`;

/** What an agent may have. */
export interface Limits {
  /** Folders that the kernel watches for it. */
  readonly watches: number;
  /** Files that it has open; 4,096 by default. */
  readonly descriptors?: number;
}

/** An agent that may have only so much. Disposing ends it. */
export interface LimitedNode extends AsyncDisposable {
  readonly pid: number;
  /** Lets the kernel watch so many folders from now on. */
  raise(watches: number): void;
  /** What it wrote to standard error. */
  logs(): string;
}

/** The agent of a node that is running, in another process in its place. */
export async function runLimited(
  node: Pick<TestNode, "kill" | "home">,
  { watches, descriptors = 4_096 }: Limits,
): Promise<LimitedNode> {
  await node.kill("SIGTERM");
  const words = [process.execPath, programFile, "node", "run", "--json"];
  const child = spawn(
    "unshare",
    ["-Ur", "sh", "-c", limited, "sh", String(watches), String(descriptors), ...words],
    {
      env: { PATH: process.env["PATH"] ?? "", HOME: node.home, FAIRLEAD_HOME: node.home },
      stdio: ["pipe", "pipe", "pipe"],
    },
  );
  let output = "";
  let log = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => void (log += text));
  const closed = once(child, "close");
  await expect.poll(() => output, { timeout: 60_000 }).toContain('"event":"ready"');
  const pid = Number(/^pid (\d+)$/m.exec(output)?.[1]);
  return {
    pid,
    raise: (limit) => void child.stdin.write(`${limit}\n`),
    logs: () => log,
    [Symbol.asyncDispose]: async () => {
      // Twice is harmless.
      if (child.stdin.writable) process.kill(pid, "SIGTERM");
      child.stdin.end();
      await closed;
    },
  };
}
