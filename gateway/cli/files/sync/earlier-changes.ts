import type { Change, SyncPlan } from "./plan-sync.ts";
import { contentOf, type SyncTree } from "./sync-entry.ts";

/** What an attempt found and planned. */
export interface Attempt {
  readonly target: SyncTree;
  readonly plan: Pick<SyncPlan, "changes">;
}

/** What earlier attempts of one sync have done before node or gateway was lost. */
export interface EarlierChanges {
  /** Takes the plan of another attempt, which is about to be made. */
  begin(attempt: Attempt): void;
  /** Made by an earlier attempt, as the last one has found: no part of its plan any more. In order of the plans. */
  readonly made: readonly Change[];
}

/** Follows the attempts of one sync, so that its result tells of all of them. */
export function followAttempts(): EarlierChanges {
  const planned = new Map<string, Change>();
  let made: readonly Change[] = [];
  return {
    begin: ({ target, plan }) => {
      const ahead = new Set(plan.changes.map(keyOf));
      made = [...planned]
        .filter(([key, change]) => !ahead.has(key) && isMade(change, target))
        .map(([, change]) => change);
      for (const change of plan.changes) {
        const key = keyOf(change);
        if (!planned.has(key)) planned.set(key, change);
      }
    },
    get made() {
      return made;
    },
  };
}

/** A path may have two changes: what stands there goes, and something else comes. */
function keyOf({ action, entry }: Change): string {
  return `${action === "remove" ? "remove" : "make"}:${entry.path}`;
}

function isMade({ action, entry }: Change, target: SyncTree): boolean {
  const standing = target.get(entry.path);
  if (action !== "remove") return standing?.kind === entry.kind;
  return standing === undefined || contentOf(standing) !== contentOf(entry);
}
