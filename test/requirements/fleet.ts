/** The promises of `fleet` that the tests prove: `{ id: "fleet.some-id", says: "the whole sentence" }`. */
export const fleet = [] as const;
