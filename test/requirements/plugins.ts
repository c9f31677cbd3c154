/** The promises of `plugins` that the tests prove: `{ id: "plugins.some-id", says: "the whole sentence" }`. */
export const plugins = [] as const;
