/** The promises of `fleet` that the tests prove: `{ id: "fleet.some-id", says: "the whole sentence" }`. */
export const fleet = [
  {
    id: "fleet.restore-bad-backup",
    says: "A truncated, altered or wrong file is refused with `INTEGRITY_FAILURE`, one of a newer version with `VERSION_UNSUPPORTED`, and the home's state is unchanged byte for byte.",
  },
  {
    id: "fleet.restore-refused-while-running",
    says: "`gateway restore` into a home whose gateway runs exits 6 and changes nothing; `gateway run` in a home already in use exits 6 and names the process.",
  },
  {
    id: "fleet.bulk-result-a-node",
    says: "A command with `--selector` over 50 nodes of which 3 fail prints one result a node in alias order with code and hint for each failure and exits 7; with none failed it exits 0, with none matched 4 and nothing done.",
  },
  {
    id: "fleet.bulk-interrupted",
    says: "Ctrl-C during a bulk command exits 130 after printing every result so far and naming the nodes that were not touched.",
  },
  {
    id: "fleet.roles",
    says: "Each admin method declares its least role (`viewer` reads; `operator` also decides requests and approvals, labels, drains, disconnects and calls; `admin` also invites, renames, revokes and manages users, tokens and backups), and a lower role gets `POLICY_DENIED` with the required role in `details`.",
  },
  {
    id: "fleet.approve-from-automation",
    says: "With `FAIRLEAD_GATEWAY` and an `operator` token in `FAIRLEAD_TOKEN`, `fairlead nodes approve ID` works without a terminal and exits 0, and `nodes revoke` with the same token exits 3.",
  },
  {
    id: "fleet.token-shown-once",
    says: "`fairlead tokens create` prints the token once; `tokens ls` shows role, creation, last use and expiry but not the token, and neither the store nor a backup holds it in clear.",
  },
  {
    id: "fleet.token-ends-at-once",
    says: "After `tokens revoke` or expiry the next request gets `UNAUTHENTICATED`, streams opened with the token end within 1 s, and the message of an expired one states when it expired.",
  },
  {
    id: "fleet.last-admin-kept",
    says: "Removing or demoting the last `admin`, also by two commands at once, is refused with `CONFLICT`, exit 6.",
  },
  {
    id: "fleet.login-context",
    says: "`fairlead login URL` takes the token from a prompt or stdin and stores it with mode 0600, `whoami` names gateway, user and role, and `logout` removes it; without a terminal or stdin `login` exits 2 and asks nothing.",
  },
  {
    id: "fleet.gateway-chosen",
    says: "An admin command uses `--gateway`, else `FAIRLEAD_GATEWAY`, else the local socket of its home when it exists, else the login, and `whoami` says which; a plain `http://` address that is not loopback is refused before a token is sent.",
  },
] as const;
