/** The promises of `files` that the tests prove: `{ id: "files.some-id", says: "the whole sentence" }`. */
export const files = [] as const;
