/** The promises of `tools` that the tests prove: `{ id: "tools.some-id", says: "the whole sentence" }`. */
export const tools = [
  {
    id: "tools.publish-limits",
    says: "The 1,001st tool of a node in name order is refused with `LIMIT_REACHED`, a schema over 64 KiB or deeper than 32 with `TOO_LARGE`, each with limit and actual value in details; the others stay.",
  },
  {
    id: "tools.long-names-keep-their-prefix",
    says: "A prefixed name over 64 characters has at most 64, keeps `<alias>__` and ends in a short hash of node id and name; every gateway computes the same.",
  },
] as const;
