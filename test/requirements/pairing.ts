/** The promises of `pairing` that the tests prove: `{ id: "pairing.some-id", says: "the whole sentence" }`. */
export const pairing = [
  {
    id: "pairing.code-carries",
    says: "A join code decodes to every advertised address, the pin of the authority's public key and a secret of 128 bits, and 10,000 codes made for one gateway hold 10,000 different secrets.",
  },
  {
    id: "pairing.pin-spellings",
    says: "A pin with or without `sha256:`, with colons, upper case or surrounding blanks reads as the same pin wherever a pin is taken; 63 digits, non-hex digits and an empty pin are refused with `INVALID_ARGUMENT`.",
  },
  {
    id: "pairing.alias-rules",
    says: "An alias is 1 to 32 characters of a to z, 0 to 9 and single hyphens, begins with a letter and does not end with a hyphen; any other is refused with `INVALID_ARGUMENT`, `details.field` = `alias`.",
  },
  {
    id: "pairing.wrong-clock-named",
    says: "A node whose clock is 30 days off shows the clock and the difference in seconds as the reason in `node status` and `node doctor`, not an expired or invalid certificate.",
  },
  {
    id: "pairing.revoke-races-renewal",
    says: "In 200 rounds of a revocation and a renewal, or a revocation and an approval, at the same moment the node never ends with a certificate that the gateway accepts.",
  },
  {
    id: "pairing.revoke-mid-stream",
    says: "A file stream running at the revocation delivers no byte after the command returned, and neither a new enrolment of that machine nor a repeat of the call revives it.",
  },
  {
    id: "pairing.revoke-despite-hung-cleanup",
    says: "With a clean-up hook that never returns, `nodes revoke` still returns within 2 s, and a message the node sends at once and one 5 s later are both refused.",
  },
  {
    id: "pairing.server-certificate-replaced",
    says: "A gateway that changes its server certificate, with the same key or a new one, under the same authority gets every node back with no `PIN_MISMATCH` and no action on a node.",
  },
  {
    id: "pairing.pin-mismatch-sends-nothing",
    says: "A joined node that meets a gateway of another authority sends nothing past the TLS handshake, shows `PIN_MISMATCH` with the expected and the seen fingerprint in `node status`, and is `online` again within 31 s once the right gateway is back.",
  },
  {
    id: "pairing.renew-failure-visible",
    says: "While renewal fails it is tried again with full jitter until it succeeds, and `nodes show` and `node status` give since, reason code and time of expiry; the link stays up until that time.",
  },
  {
    id: "pairing.authority-key-overlap",
    says: "A next authority key announced over live links and signed by the current one lets those nodes link before and after the switch; an announcement without that signature is ignored and recorded in the audit.",
  },
  {
    id: "pairing.code-one-use",
    says: "A second machine using a code of one use gets `JOIN_CODE_INVALID`, `details.reason` = `used`, exit 1, and leaves no node and no request behind.",
  },
  {
    id: "pairing.code-uses-counted",
    says: "Of ten machines that join at the same moment with a code of `--uses 3`, exactly three are enrolled and seven get `JOIN_CODE_INVALID` with reason `used`.",
  },
  {
    id: "pairing.code-expires",
    says: "A code older than 10 min, or than its `--ttl`, is refused with `JOIN_CODE_INVALID`, `details.reason` = `expired`; the message states the time of expiry and the hint is `fairlead invite`.",
  },
  {
    id: "pairing.code-looked-up-exactly",
    says: "With an expired, a used and a valid code of one gateway, each join gets the result of its own code at join time, and a failed join leaves no identity in the home.",
  },
  {
    id: "pairing.identity-written-whole",
    says: "`node join` killed at any write leaves either no identity or a whole one; the next join with the same code in that home succeeds and counts as no second use.",
  },
  {
    id: "pairing.enrolment-one-transaction",
    says: "A gateway killed at any write of an enrolment comes back with either no node and an unused code, or one whole node whose certificate the machine's retry receives.",
  },
  {
    id: "pairing.first-contact-wrong-peer",
    says: "A peer at the code's address whose authority key differs from the pin gets a TLS handshake and no byte of secret, host name or key request; `node join` ends with `PIN_MISMATCH`, exit 1, both fingerprints in `details`.",
  },
  {
    id: "pairing.secret-needed",
    says: "A client with the right address and pin and a wrong secret gets `JOIN_CODE_INVALID`, `details.reason` = `unknown`; after 100 such tries within a minute its address gets `RATE_LIMITED` with `details.retryAfterMs`, while a valid code from another address still joins.",
  },
  {
    id: "pairing.certificate-names-one-node",
    says: "A key request that asks for another node's id or alias, a server name or the right to issue certificates yields a client certificate for its own new id alone, and only its public key is taken from it.",
  },
  {
    id: "pairing.no-identity",
    says: "`node run` in a home without an identity ends with `NOT_FOUND`, exit 4, and the hint `fairlead node join CODE`.",
  },
  {
    id: "pairing.code-damaged",
    says: "A code with one character changed, dropped or added is refused with `INVALID_ARGUMENT`, `details.field` = `code`, exit 2, before any address is dialled.",
  },
  {
    id: "pairing.join-enrols",
    says: "`fairlead node join CODE` with a fresh code creates the key, enrols, saves the identity and prints `ready`; `fairlead nodes ls --json` then lists the machine as `online` under the alias of the invite.",
  },
  {
    id: "pairing.identity-private",
    says: "The identity folder has mode 0700 and its files 0600 whatever the umask; `node run` with a key that others can read ends with `POLICY_DENIED`, `details.side` = `node`, exit 3, and the `chmod` that repairs it as hint.",
  },
  {
    id: "pairing.invite-command-works",
    says: "The command that `fairlead invite` prints, pasted unchanged on another home, joins that home; with `--json` the invite gives `code`, `command`, `expiresAt` and `uses`.",
  },
  {
    id: "pairing.code-on-stdin",
    says: "`fairlead node join -` reads the code from stdin, and after the join the code's secret is in no argument list, log line, audit record or file of either home.",
  },
  {
    id: "pairing.exports-from-first-link",
    says: "`fairlead node join CODE --workspace app=DIR` shows workspace `app` in `fairlead workspaces ls --json` no later than the line `ready`.",
  },
  {
    id: "pairing.invite-bad-input",
    says: "`fairlead invite` with `--uses 0`, a negative `--ttl` or a malformed `--label` exits 2, with an unknown `--profile` 4, with an alias in use 6, and in none of these cases makes a code.",
  },
  {
    id: "pairing.join-twice-refused",
    says: "`node join` in a home whose identity is valid ends with `ALREADY_EXISTS`, exit 6, names the gateway and alias it belongs to, and changes neither the identity nor the code's uses.",
  },
  {
    id: "pairing.revoke-offline-and-again",
    says: "`nodes revoke` works on an offline node, by alias, id or id prefix, and revoking it again exits 0 and says since when it is revoked.",
  },
  {
    id: "pairing.leave-erases",
    says: "`fairlead node leave` ends the link, revokes the node at the gateway and erases key and certificate, and leaves exported folders and their configuration untouched; with the gateway unreachable it erases the identity all the same, exits 7 and prints the `nodes revoke` command for an administrator.",
  },
  {
    id: "pairing.gateway-unreachable-at-join",
    says: "A join to addresses where nobody answers ends within 25 s with `GATEWAY_UNREACHABLE`, exit 5, lists each address with its cause, and leaves the code usable.",
  },
  {
    id: "pairing.revoke-before-return",
    says: "When `fairlead nodes revoke` returns, the node's link is closed, its running calls have ended with `IDENTITY_REVOKED`, its workspaces answer `WORKSPACE_ACCESS_UNAVAILABLE` with reason `revoked`, and its tools and skills are in no list.",
  },
  {
    id: "pairing.identity-files-agree",
    says: "With the key, certificate or gateway record deleted, or one swapped for another node's, `node run` ends with `INTEGRITY_FAILURE`, exit 1, names the file and the command that repairs it, dials nobody and makes no new key.",
  },
  {
    id: "pairing.same-id-for-ever",
    says: "A node started 20 times, the first five ended with SIGKILL within 50 ms of start, shows one id, and the gateway counts one node.",
  },
  {
    id: "pairing.one-process-a-home",
    says: "A second agent in one home ends with `CONFLICT`, exit 6, naming the process that holds it; after that process is killed with SIGKILL and its id is reused by another program, the next start succeeds at once.",
  },
  {
    id: "pairing.approval-wait-shown",
    says: "With `--require-approval`, `node join` prints the request id and the line `fairlead nodes approve ID`, and `fairlead node status` shows state `waiting for approval` with since, that id and that command, exit 3.",
  },
  {
    id: "pairing.join-interrupted",
    says: "Ctrl-C while `node join` waits for approval exits 130, and the next `node join` with the same code in that home goes on under the same request id.",
  },
  {
    id: "pairing.approve-admits-waiting-node",
    says: "After `fairlead nodes approve ID --name devbox` the waiting machine is `online` as `devbox` within 2 s, without a restart or a second command on it.",
  },
  {
    id: "pairing.one-approval-suffices",
    says: "A machine admitted by an invite without `--require-approval`, or by one `fairlead nodes approve`, has its workspaces, tools and skills listed with no further approval, and `fairlead nodes pending` is empty.",
  },
  {
    id: "pairing.approve-exactly-what-was-shown",
    says: "When a request changes its key, wished name, workspaces or labels after it was listed, `nodes approve` of the listed id ends with `CONFLICT`, exit 6, `details` naming the current id and each changed field, and admits nothing.",
  },
  {
    id: "pairing.alias-unique",
    says: "Two approvals or renames that give one alias to two nodes at the same moment end with one success and one `ALREADY_EXISTS`, exit 6.",
  },
  {
    id: "pairing.pending-flood",
    says: "500 fresh requests from one address leave the 20 newest of them in `nodes pending`, at 1,000 requests in all the oldest of the address that holds most gives way, and a request from another address stays listed throughout.",
  },
  {
    id: "pairing.approve-twice",
    says: "Approving one request twice, in sequence or from two terminals at once, exits 0 both times, names the same node and issues one enrolment.",
  },
  {
    id: "pairing.reject-ends-join",
    says: "`fairlead nodes reject ID` ends the waiting `node join` within 2 s with `ENROLMENT_REJECTED`, exit 3; the machine asks no more and the gateway holds no certificate for it.",
  },
  {
    id: "pairing.pending-expires",
    says: "A request nobody decided for 24 h leaves `nodes pending`; its node gets `ENROLMENT_REJECTED` with `details.reason` = `expired` and a hint to ask for a new code, and `nodes approve` of the old id ends with `NOT_FOUND`, exit 4.",
  },
  {
    id: "pairing.refused-joins-listed",
    says: "Joins refused for an unknown, expired or used code, a rejection and an unsupported version are each listed by `fairlead nodes pending --json` under `refused` with address, reason code, count and last seen.",
  },
  {
    id: "pairing.alias-wish-never-overrides",
    says: "The name of `node join --name` becomes the alias only when neither the invite nor the approval names one and it is free; otherwise `node join` prints the alias that was given in its place. Without any name the gateway makes a free one, and nothing the node sends later changes it.",
  },
  {
    id: "pairing.retry-keeps-request-id",
    says: "A waiting node that is killed and started again with an unchanged request keeps its request id, and `nodes pending` shows one entry for it.",
  },
  {
    id: "pairing.pending-survives-gateway-restart",
    says: "A request made before the gateway is killed with SIGKILL is listed with the same id after the restart, and its approval admits the node.",
  },
  {
    id: "pairing.unapproved-log-bounded",
    says: "A node left unapproved for 10 min writes at most one log line for each change of state and one a minute besides.",
  },
  {
    id: "pairing.pending-always-has-id",
    says: "Every `ENROLMENT_PENDING` carries `details.requestId`, and that id is listed by `nodes pending` and accepted by `nodes approve`.",
  },
  {
    id: "pairing.invite-sets-alias-labels-profile",
    says: "The alias, labels and profile given to `fairlead invite` are the node's from its first link on, whatever the machine says about itself.",
  },
  {
    id: "pairing.operator-fields-kept",
    says: "Alias, labels and profile set by an administrator are unchanged after the node reconnects, is upgraded, changes its host name or publishes more tools.",
  },
  {
    id: "pairing.lapsed-renews",
    says: "A node whose certificate lapsed 1 day or 89 days ago, because it slept or the gateway was down, renews with the proof of its key and is `online` with nobody acting; one lapsed 91 days ago gets `IDENTITY_EXPIRED`, not retryable, and the hint to join with a new code.",
  },
  {
    id: "pairing.renew-at-two-thirds",
    says: "A certificate is valid for 7 days and is renewed between 4 days 16 h and 5 days of its age, spread at random, without a cut of the link or an error of a running call.",
  },
  {
    id: "pairing.renewal-proves-key",
    says: "A renewal signed with another key, replayed from an earlier renewal, or naming another node's id is refused with `UNAUTHENTICATED`, and the certificate in use stays valid.",
  },
  {
    id: "pairing.lapsed-and-revoked",
    says: "A node revoked while its certificate was lapsed gets `IDENTITY_REVOKED`, and no certificate, at every day of the 90.",
  },
  {
    id: "pairing.link-ends-with-certificate",
    says: "A link whose certificate passes its expiry without renewal is closed within 1 s with `IDENTITY_EXPIRED`, retryable, and its node has to renew before it can link again.",
  },
  {
    id: "pairing.revoke-time-flat",
    says: "Revoking one node while 1,000 are linked takes at most four times as long as while 10 are linked.",
  },
  {
    id: "pairing.enrol-burst",
    says: "200 machines that join at once with one code of 200 uses are all `online` within 10 times the time that 20 take.",
  },
  {
    id: "pairing.key-before-first-contact",
    says: "The node's P-256 key is on disk before the first byte is sent to the gateway, and a later search of the gateway's state and of a backup finds no private key of the node.",
  },
  {
    id: "pairing.revoked-node-stops",
    says: "A revoked node dials no more after its first `IDENTITY_REVOKED`; `node run` exits 3 with the hint to join with a new code, and the installed service is not started again by its supervisor.",
  },
  {
    id: "pairing.unknown-identity-stops",
    says: "A node that the gateway no longer knows gets `IDENTITY_UNKNOWN`, stops after at most 3 tries with exit 3 and the command to join again, is not started again by its service, and has written at most 10 log lines 2 min later.",
  },
  {
    id: "pairing.rename-keeps-identity",
    says: "`fairlead nodes rename` keeps id, link, labels and grants; the old alias then resolves to `NOT_FOUND`, exit 4, and neither a renamed node nor one with a new host name asks for another certificate.",
  },
  {
    id: "pairing.alias-reuse-carries-no-rights",
    says: "A new node that gets the alias of a revoked one has another id, and no grant, approval or lease of the old node applies to it.",
  },
  {
    id: "pairing.rejoin-after-terminal-state",
    says: "`node join CODE` in a home whose state is `IDENTITY_UNKNOWN` or `IDENTITY_EXPIRED` enrols the same key again, and a gateway that still knows it keeps its alias, labels and grants; after `IDENTITY_REVOKED` it makes a new key and says so.",
  },
  {
    id: "pairing.copied-home-way-back",
    says: "On a copied home that was refused, `fairlead node join CODE --new-identity` makes a key of its own and joins as another node, and the original keeps its link, certificate and grants.",
  },
  {
    id: "pairing.credentials-not-interchangeable",
    says: "A node certificate is refused by every admin method and an API token by every node method with `UNAUTHENTICATED`, and a certificate of another authority does not pass the handshake.",
  },
  {
    id: "pairing.no-profile-grants-nothing",
    says: "To a node enrolled without `--profile` every write, command and install of a session is refused with `POLICY_DENIED`, `details.side` = `gateway`, until policy allows it.",
  },
] as const;
