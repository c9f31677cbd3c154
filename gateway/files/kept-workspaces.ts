import type { Clock } from "../../shared/lifetime/clock.ts";
import { getSetting, putSetting } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { WorkspaceRegistry } from "./registry.ts";

/** A workspace that a node has offered. */
interface Kept {
  readonly nodeId: string;
  readonly workspace: string;
}

/** What `keepWorkspaces` stands on. */
export interface KeepOptions {
  readonly store: Store;
  readonly registry: Pick<WorkspaceRegistry, "list" | "changes" | "remember">;
  readonly clock: Clock;
  /** Ends the keeping. */
  readonly signal: AbortSignal;
}

const settingKey = "files.workspaces";

/** Tells the registry which workspaces were known before this process began. */
export async function recallWorkspaces({
  store,
  registry,
}: Pick<KeepOptions, "store" | "registry">): Promise<void> {
  const kept = await getSetting(store.db, settingKey);
  registry.remember(Array.isArray(kept) ? kept.filter(isKept) : []);
}

/** Keeps which workspaces are known, until the signal ends it; those of revoked nodes and those that stopped are let go. */
export async function keepWorkspaces({ store, registry, clock, signal }: KeepOptions): Promise<void> {
  let written = "";
  for await (const _ of registry.changes({ signal })) {
    const value = registry
      .list()
      .filter(({ reason }) => reason !== "revoked" && reason !== "stopped" && reason !== "not_started")
      .map(({ nodeId, workspace }) => ({ nodeId, workspace }));
    const text = JSON.stringify(value);
    if (text === written) continue;
    await putSetting(store.db, settingKey, { value, now: clock.now() });
    written = text;
  }
}

function isKept(value: unknown): value is Kept {
  return (
    typeof value === "object" &&
    value !== null &&
    "nodeId" in value &&
    typeof value.nodeId === "string" &&
    "workspace" in value &&
    typeof value.workspace === "string"
  );
}
