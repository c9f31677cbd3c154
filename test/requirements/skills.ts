/** The promises of `skills` that the tests prove: `{ id: "skills.some-id", says: "the whole sentence" }`. */
export const skills = [] as const;
