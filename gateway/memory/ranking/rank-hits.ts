import { decayFactor } from "./decay-factor.ts";
import { similarityOf, toWordSet } from "./similarity.ts";

/** How what was found is put in order. */
export interface RankingSettings {
  /** After how many days a passage counts half; 0: age does not count. */
  readonly halfLifeDays: number;
  /** From which similarity on, 0 to 1, a passage falls behind different ones; above 1: never. */
  readonly sameFrom: number;
}

/** Days after which a passage counts half where age counts. */
export const defaultHalfLifeDays = 30;

/** The order that is taken when the configuration says nothing: age does not count. */
export const defaultRanking: RankingSettings = { halfLifeDays: 0, sameFrom: 0.8 };

/** A passage before ranking. */
export interface RankedInput {
  readonly text: string;
  /** Of all ways of searching, 0 to 1. */
  readonly score: number;
  /** When its file was last changed, in milliseconds since 1970. */
  readonly modifiedMs: number;
  readonly isEvergreen: boolean;
}

/** A passage in its place. */
export interface Ranked<H> {
  readonly hit: H;
  /** What it is ordered by: never more than the one before it. */
  readonly score: number;
  /** What its age left of its score, 0 to 1. */
  readonly recency: number;
  /** How alike it is to one before it, 0 to 1. */
  readonly similarity: number;
}

/**
 * Puts passages in order, the best first and at most `limit`: by score and age, and what is nearly the same as one before
 * it comes after everything that is different. Equal scores keep the order in which they were given.
 */
export function rankHits<H extends RankedInput>(
  hits: readonly H[],
  options: RankingSettings & { readonly nowMs: number; readonly limit: number },
): readonly Ranked<H>[] {
  const aged = hits.map((hit) => {
    const recency = hit.isEvergreen ? 1 : decayFactor(options.nowMs - hit.modifiedMs, options.halfLifeDays);
    return { hit, recency, score: hit.score * recency };
  });
  const ordered = aged.toSorted((a, b) => b.score - a.score);
  const different: Ranked<H>[] = [];
  const same: Ranked<H>[] = [];
  const seen: ReadonlySet<string>[] = [];
  for (const one of ordered) {
    if (different.length >= options.limit) break;
    const words = toWordSet(one.hit.text);
    const similarity = seen.reduce((most, other) => Math.max(most, similarityOf(words, other)), 0);
    if (similarity >= options.sameFrom) {
      same.push({ ...one, similarity });
      continue;
    }
    seen.push(words);
    different.push({ ...one, similarity });
  }
  const last = different.at(-1)?.score ?? 0;
  const after = same.map((one) => ({ ...one, score: Math.min(one.score, last) * (1 - one.similarity / 2) }));
  return [...different, ...after.toSorted((a, b) => b.score - a.score)].slice(0, options.limit);
}
