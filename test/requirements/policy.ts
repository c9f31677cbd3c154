/** The promises of `policy` that the tests prove: `{ id: "policy.some-id", says: "the whole sentence" }`. */
export const policy = [
  // no such promise policy.some-id
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
  {
    id: "policy.approval-bound-to-content",
    says: "An approval covers a hash of tool, schema digest, node, session and final arguments, checked at the effect; one changed byte in any of them fails with `APPROVAL_REQUIRED` and executes nothing.",
  },
  {
    id: "policy.approval-decided-once",
    says: "Of 20 simultaneous different answers exactly one is stored; repeating it succeeds, another one is `CONFLICT` with the stored decision and decider, and an unknown id is `NOT_FOUND`.",
  },
  {
    id: "policy.approval-abort",
    says: "Aborting a call that waits ends the wait at once with `CANCELLED`, whatever the type of the reason, marks the approval cancelled, and leaves no listener behind; a later allow executes nothing.",
  },
  {
    id: "policy.approval-timeout",
    says: "An approval unanswered for 120 s ends with `APPROVAL_EXPIRED`; a request may set less or up to 10 min, more is capped, and the time is independent of the call's and run's own deadlines.",
  },
  {
    id: "policy.both-sides-must-agree",
    says: "A call is executed only when gateway and node both allow it; the refusal carries `details.rule` and `details.side`, and each of the four combinations behaves so.",
  },
  {
    id: "policy.nothing-by-default",
    says: "A node that joins without a profile runs no command and writes no file until its own configuration and the gateway's policy both allow it.",
  },
  {
    id: "policy.refused-call-says-what-next",
    says: "A call that needs approval and gets none prints `error: … (APPROVAL_REQUIRED)`, `APPROVAL_DENIED` or `APPROVAL_EXPIRED` with a hint naming the approval id and command, and exits 3.",
  },
] as const;
