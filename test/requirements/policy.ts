/** The promises of `policy` that the tests prove: `{ id: "policy.some-id", says: "the whole sentence" }`. */
export const policy = [] as const;
