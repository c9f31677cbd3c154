import { createRequire } from "node:module";
import type { DatabaseSync } from "node:sqlite";

/** Gives `database` the functions of the native extension. False where it is not installed or does not run here. */
export function loadVectorExtension(database: DatabaseSync): boolean {
  try {
    // Required by name: the package is optional, and its types are not there without it.
    const found: unknown = createRequire(import.meta.url)("sqlite-vec");
    if (typeof found !== "object" || found === null || !("getLoadablePath" in found)) return false;
    if (typeof found.getLoadablePath !== "function") return false;
    database.enableLoadExtension(true);
    database.loadExtension(String(found.getLoadablePath()));
    return true;
  } catch {
    return false;
  } finally {
    if (database.isOpen) database.enableLoadExtension(false);
  }
}
