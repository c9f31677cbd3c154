/** The promises of `tools` that the tests prove: `{ id: "tools.some-id", says: "the whole sentence" }`. */
export const tools = [
  // no such promise tools.some-id
  {
    id: "tools.publish-limits",
    says: "The 1,001st tool of a node in name order is refused with `LIMIT_REACHED`, a schema over 64 KiB or deeper than 32 with `TOO_LARGE`, each with limit and actual value in details; the others stay.",
  },
  {
    id: "tools.long-names-keep-their-prefix",
    says: "A prefixed name over 64 characters has at most 64, keeps `<alias>__` and ends in a short hash of node id and name; every gateway computes the same.",
  },
  {
    id: "tools.validates-final-arguments",
    says: "The arguments validated are those after all rewrites; invalid ones fail with `INVALID_ARGUMENT` and `details.field` without entering `execute`, and null or missing arguments count as `{}` when nothing is required.",
  },
  {
    id: "tools.published-as-one-set",
    says: "A node publishes its full set with an epoch; a set of equal digest notifies nobody, an older epoch never replaces a newer one, and after a quick change from A to B and back to A no list ever shows B last.",
  },
  {
    id: "tools.abort-before-and-during",
    says: "A call aborted before execution never enters `execute`; aborted while running, its signal fires, the node ends the process tree and the caller gets `CANCELLED` within 1 s, whatever the type of the abort reason.",
  },
  {
    id: "tools.node-checks-again",
    says: "Arguments or a tool name that the gateway let through but the node's own schema or configuration forbids are refused on the node before any effect, with `INVALID_ARGUMENT` or `POLICY_DENIED` and `details.side` `node`.",
  },
] as const;
