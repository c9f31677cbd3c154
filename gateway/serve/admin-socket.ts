import { createHash } from "node:crypto";
import { chmod, mkdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { writePrivateFile } from "../../shared/identity/private-files.ts";

/** Where the administrators' socket goes. Disposing removes what was written for it. */
export interface AdminSocket extends AsyncDisposable {
  /** The socket's path, at most 100 bytes. */
  readonly path: string;
  /** Leaves the socket, once it listens, to its owner alone. */
  close(): Promise<void>;
}

/** Kernels refuse socket paths of more than about 104 bytes. */
const maxPathBytes = 100;

/**
 * Chooses the path of the administrators' socket: `admin.sock` in the gateway's folder or, when that is too long for a
 * socket, a short one in a private folder of the runtime directory, named in `admin.sock.path`.
 */
export async function placeAdminSocket(gatewayDir: string): Promise<AdminSocket> {
  const plain = path.join(gatewayDir, "admin.sock");
  const pointer = path.join(gatewayDir, "admin.sock.path");
  await rm(pointer, { force: true });
  if (Buffer.byteLength(plain) <= maxPathBytes) return toSocket(plain, []);
  const mark = createHash("sha256").update(path.resolve(gatewayDir)).digest("hex").slice(0, 16);
  const folder = path.join(os.tmpdir(), `fairlead-${process.getuid?.() ?? 0}-${mark}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
  const short = path.join(folder, "admin.sock");
  await writePrivateFile(pointer, `${short}\n`);
  return toSocket(short, [pointer, folder]);
}

function toSocket(socketPath: string, extras: readonly string[]): AdminSocket {
  return {
    path: socketPath,
    close: () => chmod(socketPath, 0o600),
    [Symbol.asyncDispose]: async () => {
      for (const extra of [socketPath, ...extras]) await rm(extra, { recursive: true, force: true });
    },
  };
}
