/** The promises of `policy` that the tests prove: `{ id: "policy.some-id", says: "the whole sentence" }`. */
export const policy = [
  {
    id: "policy.deny-beats-allow",
    says: "Within one layer deny beats allow, and the removal record names the deny rule.",
  },
  {
    id: "policy.no-list-is-not-an-empty-list",
    says: "A layer without an allow list restricts nothing, a layer with an empty one allows nothing, and deny works in both.",
  },
  {
    id: "policy.only-narrows",
    says: "For any layers and candidates, adding a layer never adds a tool, and a later `*` restores nothing that an earlier layer removed.",
  },
  {
    id: "policy.patterns",
    says: "Entries match canonical names without regard to case, `*` is the only wildcard, and `devbox__*` means every tool of that node.",
  },
] as const;
