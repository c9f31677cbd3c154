import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { ServerTls } from "../../../shared/rpc/server-credentials.ts";

const program = fileURLToPath(new URL("gateway-process.ts", import.meta.url));

/** A gateway's links in a process of their own. */
export interface SpawnedGateway extends AsyncDisposable {
  readonly port: number;
  /** Resident memory once the garbage is gone, in bytes. */
  memory(): Promise<number>;
  /** Kills it at once. */
  kill(): Promise<void>;
}

/** Starts one on a port of loopback; 0 chooses one. */
export async function spawnGateway(tls: ServerTls, port = 0): Promise<SpawnedGateway> {
  const child = spawn(process.execPath, ["--expose-gc", program, String(port)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.end(JSON.stringify(tls));
  const waiting = new Map<string, (value: number) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [word = "", value = ""] = line.split(" ");
    waiting.get(word)?.(Number(value));
  });
  const told = (word: string): Promise<number> =>
    new Promise((resolve) => {
      waiting.set(word, resolve);
    });
  const ended = new Promise<void>((resolve) => void child.once("close", () => resolve()));
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  return {
    port: await told("ready"),
    memory: async () => {
      const answer = told("memory");
      child.kill("SIGUSR2");
      return await answer;
    },
    kill,
    [Symbol.asyncDispose]: kill,
  };
}
