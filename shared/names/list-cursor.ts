import { hash } from "node:crypto";
import { Fault } from "../fault/fault.ts";
import { parseWorkspacePath, type WorkspacePath } from "./workspace-path.ts";

/** Which listing a cursor belongs to. */
export interface ListScope {
  /** The folder that is listed. */
  readonly path: WorkspacePath;
  readonly recursive: boolean;
}

/** A cursor that goes on behind `last`, a path below the listed folder. */
export function encodeListCursor(scope: ListScope, last: string): string {
  return Buffer.from(`${checksum(scope, last)}${last}`).toString("base64url");
}

/**
 * Where a listing goes on. A cursor that was altered, or belongs to another listing, is `INVALID_ARGUMENT` with
 * `details.field` = `cursor`.
 */
export function decodeListCursor(scope: ListScope, cursor: string): WorkspacePath {
  const bytes = Buffer.from(cursor, "base64url");
  const text = bytes.toString("utf8");
  const last = text.slice(checksumLength);
  if (bytes.toString("base64url") !== cursor || text.slice(0, checksumLength) !== checksum(scope, last))
    throw refused();
  try {
    return parseWorkspacePath(last);
  } catch (error) {
    throw new Fault("INVALID_ARGUMENT", refused().message, { details: { field: "cursor" }, cause: error });
  }
}

const checksumLength = 12;

/** Not a secret: it tells an altered cursor, and what it opens is judged as any path. */
function checksum({ path, recursive }: ListScope, last: string): string {
  return hash("sha256", JSON.stringify([path, recursive, last]), "base64url").slice(0, checksumLength);
}

function refused(): Fault {
  return new Fault("INVALID_ARGUMENT", "the cursor is of another listing, or was altered", {
    details: { field: "cursor" },
    hint: "list again without a cursor",
  });
}
