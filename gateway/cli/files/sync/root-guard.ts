import { Fault } from "../../../../shared/fault/fault.ts";
import type { FoundTree } from "./list-trees.ts";
import type { SyncPlan } from "./plan-sync.ts";
import type { SyncState } from "./sync-state.ts";

/** What is asked before anything is removed. */
export interface RootGuard {
  readonly plan: SyncPlan;
  readonly source: FoundTree;
  readonly state: SyncState | undefined;
  /** What both sides had at the last sync, without what is left out now: paths with their content. */
  readonly base: readonly (readonly [path: string, content: string])[];
  readonly isPush: boolean;
  /** Somebody said beforehand that it is meant. */
  readonly accepts: boolean;
  /** Asks a person; false where there is none. */
  readonly ask: (question: string) => Promise<boolean>;
}

/**
 * A source that is another folder than at the last sync, that is empty, or that lacks most of what was known of it is more
 * likely a mistake than meant: nothing is removed for it unless a person says so, else it is `CONFLICT` with the reason.
 */
export async function requireSameRoot(guard: RootGuard): Promise<void> {
  const removed = guard.plan.changes.filter(({ action }) => action === "remove").length;
  if (removed === 0 || guard.accepts) return;
  const doubt = findDoubt(guard);
  if (!doubt) return;
  if (await guard.ask(`${doubt.text}; remove ${removed} entries at the target?`)) return;
  throw new Fault("CONFLICT", `${doubt.text}; nothing was changed`, {
    details: { reason: doubt.reason, removals: removed },
    hint: "look at the source; if it is meant, repeat with --accept-root",
  });
}

interface Doubt {
  readonly reason: "root_replaced" | "source_empty" | "most_missing";
  readonly text: string;
}

function findDoubt({ source, state, base, isPush }: RootGuard): Doubt | undefined {
  const before = isPush ? state?.localIdentity : state?.remoteIdentity;
  if (before !== undefined && before !== "" && before !== source.identity) {
    return { reason: "root_replaced", text: "the source is another folder than at the last sync" };
  }
  if (source.entries.size === 0) return { reason: "source_empty", text: "the source is empty" };
  const known = base.filter(([, content]) => content.startsWith("file:"));
  const missing = known.filter(([path]) => !source.entries.has(path)).length;
  if (missing * 2 <= known.length) return undefined;
  return {
    reason: "most_missing",
    text: `the source lacks ${missing} of ${known.length} files of the last sync`,
  };
}
