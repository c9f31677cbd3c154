/** The promises of `sessions` that the tests prove: `{ id: "sessions.some-id", says: "the whole sentence" }`. */
export const sessions = [
  // no such promise sessions.some-id
  {
    id: "sessions.mcp-two-revisions",
    says: "One endpoint serves revision 2026-07-28 without a handshake and 2025-11-25 after `initialize`, at the same time, over streamable HTTP and stdio, and both list the same tools and give the same results.",
  },
  {
    id: "sessions.mcp-legacy-session",
    says: "A 2025-11-25 client gets a random session id, must send it from then on, ends it by DELETE and gets 404 afterwards; a dropped response stream does not cancel its call.",
  },
  {
    id: "sessions.mcp-progress",
    says: "A call with a progress token gets rising progress values on its own response stream, at most 10 a second, none after its end, and none on a listen stream.",
  },
  {
    id: "sessions.mcp-list-changed",
    says: "A changed surface sends one `notifications/tools/list_changed` per burst of changes within 1 s, a change of skills one for resources, and an equal digest after a reconnect sends none.",
  },
  {
    id: "sessions.open",
    says: "`fairlead sessions open --agent A --workspace NODE:/WS` prints id, agent, workspace, state, snapshot hash and surface digest (`--json` as one document), and the id works at once in MCP, gRPC and every `--session` option.",
  },
  {
    id: "sessions.open-refused",
    says: "Opening with an unknown node, workspace or agent exits 4, one that policy forbids exits 3 with the rule, and one whose node is offline exits 5 with `WORKSPACE_ACCESS_UNAVAILABLE` and since when; no session is left behind.",
  },
  {
    id: "sessions.mcp-stdio-command",
    says: "`fairlead mcp --session ID` writes nothing but protocol messages to stdout and its log to stderr, answers a malformed line with -32700 and goes on, and at end of input cancels its calls and exits 0 within 2 s.",
  },
  {
    id: "sessions.mcp-stdio-without-gateway",
    says: "`fairlead mcp` with no gateway reachable exits 5 with `GATEWAY_UNREACHABLE` and a hint on stderr within 5 s; a gateway that restarts meanwhile is reached again without a restart of the command.",
  },
  {
    id: "sessions.mcp-list",
    says: "`tools/list` is sorted by name, in pages with an opaque cursor whose union is the surface, with `ttlMs` and `cacheScope` `private`; a foreign or stale cursor gets -32602.",
  },
  {
    id: "sessions.mcp-no-task-unasked",
    says: "A client that did not declare the extension on that request never gets `resultType` `task` but the final result on its stream; the task ids in a listen filter are left out of its acknowledgement.",
  },
  {
    id: "sessions.mcp-bad-bodies",
    says: "An array, half a document, nesting over 64 levels, a body over 4 MiB or a wrong content type gets 400, 413 or 415 with a JSON-RPC error, and the endpoint serves the next request.",
  },
  {
    id: "sessions.mcp-headers-must-agree",
    says: "A missing or differing `MCP-Protocol-Version`, `Mcp-Method` or `Mcp-Name` header, Base64 form included, gets -32020 and HTTP 400 and nothing is executed.",
  },
  {
    id: "sessions.mcp-browser-attack",
    says: "A foreign `Origin` or `Host` gets HTTP 403 before the body is read, HTTP without TLS listens on loopback only, and no session or token is accepted from a URL's query.",
  },
  {
    id: "sessions.mcp-skill-escape",
    says: "Addresses with `..`, encoded slashes, NUL, another alias or a hidden, denied or ineligible skill get -32602, and a skill of one node never leads to a read on another.",
  },
  {
    id: "sessions.mcp-cancel",
    says: "Closing the response stream (2026-07-28) or `notifications/cancelled` (stdio, 2025-11-25) ends the call on the node within 1 s and no further message is sent for it; an unknown request id is ignored.",
  },
  {
    id: "sessions.mcp-unsupported-version",
    says: "Another version gets error -32022 with `supported` and `requested` and HTTP 400; a request without the required `_meta` fields gets -32602 and HTTP 400; an unknown method -32601 and HTTP 404.",
  },
  {
    id: "sessions.sleeping-node-tools",
    says: "While its node sleeps a session's list has no tool of that node, and a call of one fails within 1 s with `NODE_OFFLINE`, since when, and a hint; gateway tools go on; the core tools of a session bound to it stay listed and fail with `WORKSPACE_ACCESS_UNAVAILABLE`.",
  },
] as const;
