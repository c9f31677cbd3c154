import path from "node:path";
import type { Home } from "../../shared/config/home.ts";
import { readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";

/** What `up` keeps from one start to the next. */
export interface UpState {
  /** Where the link listens: `127.0.0.1:PORT`. */
  readonly linkAddress?: string;
  /** The session that it opened. */
  readonly session?: string;
  /** The text of the token that opens the session. */
  readonly token?: string;
}

/** Reads what was kept; nothing when there is none. */
export async function readUpState(home: Home): Promise<UpState> {
  const file = await readPrivateFile(stateFile(home));
  if (!file) return {};
  const parsed: unknown = JSON.parse(file.text);
  if (typeof parsed !== "object" || parsed === null) return {};
  const known = Object.entries(parsed).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(known);
}

/** Keeps more, beside what was kept; for the owner alone. */
export async function writeUpState(home: Home, more: UpState): Promise<void> {
  const state = { ...(await readUpState(home)), ...more };
  await writePrivateFile(stateFile(home), `${JSON.stringify(state)}\n`);
}

function stateFile(home: Home): string {
  return path.join(home.gatewayDir, "up.json");
}
