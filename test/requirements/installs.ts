/** The promises of `installs` that the tests prove: `{ id: "installs.some-id", says: "the whole sentence" }`. */
export const installs = [
  {
    id: "installs.plan-digest-covers-everything",
    says: "Equal plans have the equal SHA-256 digest whatever the order of their fields; a change of node, skill digest, recipe, value, version, address, artefact digest, argv, environment name, folder, expected binary or deadline gives another.",
  },
] as const;
