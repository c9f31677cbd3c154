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
  {
    id: "tools.node-tools-always-prefixed",
    says: "A node's tool appears as `<alias>__<tool>` also when nothing collides, and a second node that joins with the same tools changes no name already listed.",
  },
  {
    id: "tools.offline-node-withdraws",
    says: "When a node is declared offline all its tools leave every surface in one step with reason and since when, and when no node is connected no node tool is listed.",
  },
  {
    id: "tools.exec-streams-and-reports",
    says: "`exec` streams stdout and stderr apart while the command runs, passes stdin only when the caller sends it (else end of file), and ends with exit code or signal, `timedOut`, `durationMs` and the canonical working directory.",
  },
  {
    id: "tools.explain-six-states",
    says: "`fairlead tools explain NAME` prints the states installed, discovered, registered, exposed, called and executed in order with evidence, names the first that failed, why, and one next command; `--json` gives the same as one document.",
  },
  {
    id: "tools.unknown-name",
    says: "An unknown tool name fails with `NOT_FOUND` and up to three suggestions from the caller's own surface; a name that is a skill points to that skill, and a hidden tool is never suggested.",
  },
  {
    id: "tools.exec-environment",
    says: "`PATH`, `LD_*`, `DYLD_*`, `NODE_OPTIONS`, proxy and TLS variables from a caller do not reach the command, and no secret of the node agent is in its environment.",
  },
] as const;
