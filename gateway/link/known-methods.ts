/** The methods that a node serves. */
export interface KnownMethods {
  /** As its hello names them. */
  readonly names: string[];
  readonly set: ReadonlySet<string>;
}

/** Lists that are held for whoever has the same one, the newest last. */
const kept = new Map<string, KnownMethods>();

/** Nodes of so many versions link at once; more have lists of their own. */
const maxKept = 16;

/** The methods of a hello. Nodes of one version serve the same ones: a fleet holds them once, not each link by itself. */
export function knownMethodsOf(names: string[]): KnownMethods {
  const key = names.join("\n");
  const known = kept.get(key) ?? { names, set: new Set(names) };
  kept.delete(key);
  kept.set(key, known);
  const [oldest] = kept.keys();
  if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest);
  return known;
}
