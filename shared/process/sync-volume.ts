import { spawn } from "node:child_process";

/**
 * Brings everything that was written on the volume of `path` to the disk. Node has no `syncfs`, so the system's own `sync`
 * does it. False where there is none that can. An abort rejects with the signal's reason; the program then ends by itself.
 */
export async function syncVolume(path: string, signal?: AbortSignal): Promise<boolean> {
  signal?.throwIfAborted();
  const child = spawn("/bin/sync", ["-f", path], { cwd: "/", env: {}, stdio: "ignore" });
  const ended = Promise.withResolvers<boolean>();
  child.once("error", () => ended.resolve(false));
  child.once("exit", (code) => ended.resolve(code === 0));
  const onAbort = (): void => ended.reject(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await ended.promise;
  } finally {
    signal?.removeEventListener("abort", onAbort);
  }
}
