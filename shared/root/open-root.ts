import { isAbsolute } from "node:path";
import { Fault } from "../fault/fault.ts";
import { openLinuxRoot } from "./linux/linux-root.ts";
import { openPortableRoot } from "./portable/portable-root.ts";
import type { Containment, RootHandle, RootOptions } from "./root-handle.ts";

/** How surely a root is kept inside on this platform, where nobody asks for another. */
export const ownContainment: Containment = process.platform === "linux" ? "kernel" : "best_effort";

/**
 * Opens the folder at `absolutePath` (links in it resolved) as a root. The caller disposes the handle. Fails with
 * `NOT_FOUND` or `NOT_A_DIRECTORY`, and with `IO_ERROR` where the containment that was asked for is not to be had.
 */
export async function openRoot(absolutePath: string, options: RootOptions = {}): Promise<RootHandle> {
  if (!isAbsolute(absolutePath)) throw new Error("a root is opened by an absolute path");
  const { containment = ownContainment } = options;
  if (containment === "best_effort") return openPortableRoot(absolutePath, options);
  if (process.platform === "linux") return openLinuxRoot(absolutePath, options);
  throw new Fault(
    "IO_ERROR",
    `on ${process.platform} the kernel does not keep a folder closed to the outside`,
    {
      details: { reason: "unsupported_platform" },
      hint: "set containment: best_effort for the workspace, or leave it out",
    },
  );
}
