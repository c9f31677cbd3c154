/** The promises of `pairing` that the tests prove: `{ id: "pairing.some-id", says: "the whole sentence" }`. */
export const pairing = [] as const;
