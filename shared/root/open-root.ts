import { isAbsolute } from "node:path";
import { Fault } from "../fault/fault.ts";
import { openLinuxRoot } from "./linux/linux-root.ts";
import type { RootHandle, RootOptions } from "./root-handle.ts";

/**
 * Opens the folder at `absolutePath` (links in it resolved) as a root. The caller disposes the handle. Fails with
 * `NOT_FOUND` or `NOT_A_DIRECTORY`, and with `IO_ERROR` where this platform has no containment.
 */
export async function openRoot(absolutePath: string, options: RootOptions = {}): Promise<RootHandle> {
  if (!isAbsolute(absolutePath)) throw new Error("a root is opened by an absolute path");
  if (process.platform === "linux") return openLinuxRoot(absolutePath, options);
  throw new Fault("IO_ERROR", `folders cannot be exported on ${process.platform} yet`, {
    details: { reason: "unsupported_platform" },
  });
}
