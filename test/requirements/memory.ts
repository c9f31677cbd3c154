/** The promises of `memory` that the tests prove: `{ id: "memory.some-id", says: "the whole sentence" }`. */
export const memory = [] as const;
