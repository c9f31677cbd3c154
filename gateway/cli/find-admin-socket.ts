import { readFile } from "node:fs/promises";
import path from "node:path";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";

/** The socket of the gateway in a folder; a path too long for a socket is kept in a file beside it. */
export async function findAdminSocket(gatewayDir: string): Promise<string> {
  try {
    return (await readFile(path.join(gatewayDir, "admin.sock.path"), "utf8")).trim();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return path.join(gatewayDir, "admin.sock");
  }
}
