/** The promises of `link` that the tests prove: `{ id: "link.some-id", says: "the whole sentence" }`. */
export const link = [] as const;
