/** The promises of `tools` that the tests prove: `{ id: "tools.some-id", says: "the whole sentence" }`. */
export const tools = [] as const;
