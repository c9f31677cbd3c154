import { foldName, type NameFolding } from "../../../../shared/names/folded-name.ts";
import { notPortable } from "../../../../shared/tree/tree-names.ts";
import type { TreeProblem } from "../../../../shared/tree/tree-part.ts";
import type { FoundTree } from "./list-trees.ts";

/** What of two trees is left alone, as the target's volume would make one of two names. */
export interface LeftTwins<S extends FoundTree, T extends FoundTree> {
  readonly source: S;
  readonly target: T;
}

/**
 * The trees without what the target's volume takes for one: each such path of either side is a problem of the source, and
 * neither it nor what lies below it is an entry any more.
 */
export function leaveTwins<S extends FoundTree, T extends FoundTree>(
  { source, target }: LeftTwins<S, T>,
  folding: NameFolding,
): LeftTwins<S, T> {
  if (!folding.case && !folding.form) return { source, target };
  const spelled = new Map<string, Set<string>>();
  for (const path of [...source.entries.keys(), ...target.entries.keys()]) {
    const folded = foldName(path, folding);
    const group = spelled.get(folded);
    if (group) group.add(path);
    else spelled.set(folded, new Set([path]));
  }
  const problems: TreeProblem[] = [];
  const left = new Set<string>();
  for (const group of spelled.values()) {
    if (group.size === 1) continue;
    for (const path of group) {
      left.add(path);
      const others = [...group].filter((other) => other !== path).join(", ");
      problems.push({
        path,
        fault: notPortable(path, `it and ${others} are one name on the volume that it goes to`),
      });
    }
  }
  if (left.size === 0) return { source, target };
  return {
    source: {
      ...source,
      entries: without(source.entries, left),
      problems: [...source.problems, ...problems],
    },
    target: { ...target, entries: without(target.entries, left) },
  };
}

/** A path below one of two names is itself spelled twice, or lies below what is left. */
function without<E>(entries: ReadonlyMap<string, E>, left: ReadonlySet<string>): ReadonlyMap<string, E> {
  const kept = new Map<string, E>();
  for (const [path, entry] of entries) {
    let isLeft = left.has(path);
    for (let at = path.lastIndexOf("/"); !isLeft && at > 0; at = path.lastIndexOf("/", at - 1))
      isLeft = left.has(path.slice(0, at));
    if (!isLeft) kept.set(path, entry);
  }
  return kept;
}
