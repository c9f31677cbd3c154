/** The promises of `installs` that the tests prove: `{ id: "installs.some-id", says: "the whole sentence" }`. */
export const installs = [] as const;
