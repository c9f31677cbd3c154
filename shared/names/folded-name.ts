/** What a volume does not tell apart in names. */
export interface NameFolding {
  /** Upper and lower case are one. */
  readonly case: boolean;
  /** Composed and decomposed characters are one. */
  readonly form: boolean;
}

/** How a name is one with another of its folder; `byBoth` holds wherever one of the others does. */
export interface Twinship {
  /** Where only case is not told apart. */
  readonly byCase: boolean;
  /** Where only the form of characters is not told apart. */
  readonly byForm: boolean;
  /** Where neither is. */
  readonly byBoth: boolean;
}

/** A volume that tells all names apart. */
export const foldsNothing: NameFolding = { case: false, form: false };

const foldsAll: NameFolding = { case: true, form: true };

/**
 * One form for all spellings of a name that a volume takes for one; by default for those that any volume does. Volumes
 * differ in a few letters: where they do, more is taken for one here, since two files that become one lose content.
 */
export function foldName(name: string, folding: NameFolding = foldsAll): string {
  const formed = folding.form ? name.normalize("NFC") : name;
  return folding.case ? formed.toUpperCase().toLowerCase() : formed;
}

/** The names of one folder that some volume takes for another of them. */
export function findTwins(names: readonly string[]): ReadonlyMap<string, Twinship> {
  const twins = new Map<string, Twinship>();
  if (new Set(names.map((name) => foldName(name))).size === names.length) return twins;
  const groups = Map.groupBy(names, (name) => foldName(name));
  for (const group of groups.values()) {
    if (group.length === 1) continue;
    const count = (folding: NameFolding): ReadonlyMap<string, readonly string[]> =>
      Map.groupBy(group, (name) => foldName(name, folding));
    const byCase = count({ case: true, form: false });
    const byForm = count({ case: false, form: true });
    for (const name of group) {
      twins.set(name, {
        byCase: (byCase.get(foldName(name, { case: true, form: false }))?.length ?? 0) > 1,
        byForm: (byForm.get(foldName(name, { case: false, form: true }))?.length ?? 0) > 1,
        byBoth: true,
      });
    }
  }
  return twins;
}

/** Whether a name is one with another on a volume that folds so. */
export function isTwinOn(twinship: Twinship, folding: NameFolding): boolean {
  if (folding.case && folding.form) return twinship.byBoth;
  return (folding.case && twinship.byCase) || (folding.form && twinship.byForm);
}
