import { Fault } from "../../../shared/fault/fault.ts";

/** What a provider's answer must fit. */
export interface VectorShape {
  /** How many texts were sent. */
  readonly texts: number;
  /** How many numbers a vector has; undefined: those of the first. */
  readonly dimensions: number | undefined;
}

/** Most numbers of a vector. */
export const maxDimensions = 16_384;

/**
 * The vectors of an answer at unit length, so that a product of two is their cosine. Too few or too many, another
 * dimension, a number that is not finite and a vector of no length are `INTEGRITY_FAILURE`: then none is taken.
 */
export function checkVectors(
  vectors: readonly (readonly number[])[],
  { texts, dimensions }: VectorShape,
): readonly Float32Array[] {
  if (vectors.length !== texts) {
    throw badVectors(`answered ${vectors.length} vectors for ${texts} texts`, "count");
  }
  const expected = dimensions ?? vectors[0]?.length ?? 0;
  if (expected < 1 || expected > maxDimensions) {
    throw badVectors(`gave vectors of ${expected} numbers; 1 to ${maxDimensions} are possible`, "dimension");
  }
  return vectors.map((vector) => toUnitLength(vector, expected));
}

function toUnitLength(vector: readonly number[], dimensions: number): Float32Array {
  if (vector.length !== dimensions) {
    throw badVectors(`gave a vector of ${vector.length} numbers where ${dimensions} are due`, "dimension");
  }
  if (!vector.every(Number.isFinite)) throw badVectors("gave a number that is not finite", "not_finite");
  // Scaled first: the squares of large numbers would be infinite.
  const largest = vector.reduce((most, number) => Math.max(most, Math.abs(number)), 0);
  if (largest === 0) throw badVectors("gave a vector of no length", "no_length");
  let squares = 0;
  for (const number of vector) squares += (number / largest) ** 2;
  const length = Math.sqrt(squares) * largest;
  // What overflows after all would be stored as no vector at all.
  if (!Number.isFinite(length)) throw badVectors("gave numbers too large to compare", "not_finite");
  return Float32Array.from(vector, (number) => number / length);
}

function badVectors(what: string, kind: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `the embedding provider ${what}`, {
    details: { reason: "embedding_vectors", field: kind },
    hint: "check the model and `dimensions` under `embeddings` in the gateway's configuration",
  });
}
