/** The promises of `sessions` that the tests prove: `{ id: "sessions.some-id", says: "the whole sentence" }`. */
export const sessions = [] as const;
