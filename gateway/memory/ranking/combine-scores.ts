/** What each way of searching thinks of a passage, 0 to 1; absent: it did not answer. */
export interface WayScores {
  readonly keyword?: number;
  readonly vector?: number;
}

/** How much each way counts. */
export const wayWeights = { vector: 0.7, keyword: 0.3 } as const;

/** Both ways together, 0 to 1, weighted over those that answered: alone, each counts in full. */
export function combineScores(scores: WayScores): number {
  let sum = 0;
  let weights = 0;
  for (const way of ["vector", "keyword"] as const) {
    const score = scores[way];
    if (score === undefined) continue;
    sum += wayWeights[way] * score;
    weights += wayWeights[way];
  }
  return weights === 0 ? 0 : sum / weights;
}
