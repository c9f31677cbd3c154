/** The promises of `memory` that the tests prove: `{ id: "memory.some-id", says: "the whole sentence" }`. */
export const memory = [
  {
    id: "memory.chunks",
    says: "Chunks are at most 400 tokens with at most 80 of overlap, cover every line, carry exact line numbers from 1, are equal for equal text, cut lines longer than a chunk, and never split a surrogate pair.",
  },
  {
    id: "memory.keyword-search",
    says: "A query matches passages with all its words first and passages with some of them after, at a lower rank; quotes, `*`, `-`, `NEAR`, an unbalanced bracket and text without any word never cause an error.",
  },
] as const;
