import type { Change, SyncPlan } from "./plan-sync.ts";
import type { SyncTree } from "./sync-entry.ts";

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
      const ahead = new Set(plan.changes.map(({ entry }) => entry.path));
      made = [...planned.values()].filter(
        ({ action, entry }) => !ahead.has(entry.path) && target.has(entry.path) === (action !== "remove"),
      );
      for (const change of plan.changes)
        if (!planned.has(change.entry.path)) planned.set(change.entry.path, change);
    },
    get made() {
      return made;
    },
  };
}
