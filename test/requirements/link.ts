/** The promises of `link` that the tests prove: `{ id: "link.some-id", says: "the whole sentence" }`. */
export const link = [
  // no such promise link.some-id
  {
    id: "link.node-listens-nowhere",
    says: "A linked node and its workers hold no listening TCP or UDP socket, and the gateway needs one port for all nodes.",
  },
  {
    id: "link.hello-first",
    says: "A link begins with the node's hello (protocol window, boot id, epoch of what it publishes, ids of calls still running) and counts as `online` only after the gateway accepted it; any other first message closes the stream with `INVALID_ARGUMENT`.",
  },
  {
    id: "link.ready-means-published",
    says: "`fairlead node run` prints `ready` only when its link is up and its workspaces, tools and skills are listed at the gateway.",
  },
  {
    id: "link.call-one-round-trip",
    says: "While a parked stream is free a call costs one round trip and opens no stream; afterwards the stream is parked again and serves the next call.",
  },
  {
    id: "link.messages-arrive-whole",
    says: "Requests and answers of 64 KiB − 1, 64 KiB, 64 KiB + 1 and 100 MiB in messages of at most 4 MiB arrive byte for byte and in order; no request, answer or byte of a file travels on the control stream, and transfers of 1 MiB or more run on the bulk connection, which is closed after 60 s without use.",
  },
  {
    id: "link.every-call-kind",
    says: "One suite of unary, client-stream, server-stream and bidirectional calls gives equal messages, statuses and `Fault` fields over a direct connection, over a link and over framed stdio.",
  },
  {
    id: "link.fault-crosses-whole",
    says: "A `Fault` raised on the node reaches the caller with the same code, message, hint, retryable flag and details; any other error arrives as `INTERNAL` with a trace id and without stack or local path.",
  },
  {
    id: "link.class-declared",
    says: "Every method that a gateway calls on a node declares exactly one class (`idempotent`, `job`, `at_most_once`) in its proto file; a method with none fails the check by name.",
  },
  {
    id: "link.trace-crosses",
    says: "The caller's `traceparent` is the parent of the node's part of the call; a malformed one, or one longer than 128 characters, starts a new trace and the call succeeds.",
  },
  {
    id: "link.deadline-carried-once",
    says: "A call with a deadline of 60 s that the node answers after 35 s succeeds, and no timer of the link on either side ends a call before its deadline.",
  },
  {
    id: "link.cancel-reaches-node",
    says: "Cancelling a call, leaving its stream after three items, or cancelling an upload that the node no longer reads, aborts the node's work within 1 s and raises no unhandled rejection on either side.",
  },
  {
    id: "link.cancelled-calls-leave-nothing",
    says: "After 20,000 streams opened and cancelled on one link, as fast as they go and with the library's limits on resets unchanged, the link is the same one, both sides hold no open stream, and the heap is within 10 % of its size after the first 1,000.",
  },
  {
    id: "link.same-key-same-answer",
    says: "An `at_most_once` call repeated with its idempotency key within 10 min gets the first outcome, success or failure, and runs once.",
  },
  {
    id: "link.state-watch",
    says: "A watcher of connection state receives the present state of every node first and then each change in order with state, since, reason code and connection generation.",
  },
  {
    id: "link.message-too-large",
    says: "A message of 4 MiB + 1 byte in either direction fails its call alone with `TOO_LARGE`, `details.limit` = 4194304 and the size in `details.actual`; the next call succeeds on the same link.",
  },
  {
    id: "link.deadline-range",
    says: "A call without a deadline gets 60 s, one of 24 h is accepted, and zero, negative and longer ones are refused with `INVALID_ARGUMENT`, `details.field` = `deadline`, before dispatch.",
  },
  {
    id: "link.key-with-other-request",
    says: "An idempotency key repeated with a different method or request ends with `CONFLICT`, and nothing runs.",
  },
  {
    id: "link.stage-named",
    says: "A call that ends with `DEADLINE_EXCEEDED`, `NODE_OFFLINE` or `OUTCOME_UNKNOWN` names how far it came in `details.stage`: `queued`, `dispatched` or `running`.",
  },
  {
    id: "link.node-answers-deadline",
    says: "A handler that never returns gives the caller `DEADLINE_EXCEEDED` from the node with stage `running` within 500 ms of a deadline of 1 s, and its signal is aborted.",
  },
  {
    id: "link.paused-reader-bounded",
    says: "While a 1 GiB answer, in messages of 64 KiB and of 1 MiB, meets a reader that stopped, or a 1 GiB request a node that stopped reading, its bytes in flight stay within 8 MiB and the memory of gateway and node each grows by at most 64 MiB.",
  },
  {
    id: "link.pause-resume-in-order",
    says: "10,000 numbered messages to a reader that pauses and resumes 100 times all arrive once and in order.",
  },
  {
    id: "link.control-never-starved",
    says: "With 500 watch streams that nobody reads open on a link, a short call takes under 1 s, a file of 100 MiB arrives whole and the node stays `online`.",
  },
  {
    id: "link.heartbeat-from-gateway",
    says: "Both sides use the interval that the gateway announces (10 s, dead after 25 s); a configured dead-after time of not more than the interval is refused at start with `INVALID_ARGUMENT`.",
  },
  {
    id: "link.frozen-node",
    says: "A frozen node is `offline` within 26 s with its reason and its subscriptions are freed; new calls then fail with `NODE_OFFLINE`, and a dispatched one ends with the ledger's answer after the thaw or with `OUTCOME_UNKNOWN` at its deadline.",
  },
  {
    id: "link.frozen-gateway",
    says: "A node whose gateway freezes leaves the link within 26 s, dials again, and is `online` within 31 s of the gateway's thaw.",
  },
  {
    id: "link.silent-peer-given-up",
    says: "A peer that accepts TCP, or finishes TLS, and says nothing is given up within 20 s, at first start and after a cut; 20 such rounds leave no socket, file descriptor or timer behind.",
  },
  {
    id: "link.offline-fails-at-once",
    says: "A call to a node without a live link fails within 1 s with `NODE_OFFLINE`, retryable, and does not run after the node is back.",
  },
  {
    id: "link.cut-idempotent",
    says: "An `idempotent` call whose link is cut at 40 % of its answer is re-attached or repeated after the reconnect, and its caller sees one whole answer equal to that of an uncut call.",
  },
  {
    id: "link.cut-at-most-once",
    says: "An `at_most_once` call cut before dispatch ends with `NODE_OFFLINE` and no effect; one cut after dispatch or after its effect returns the ledger's answer, and its effect happened once.",
  },
  {
    id: "link.random-cuts-settle-once",
    says: "Of 1,000 `at_most_once` calls under cuts at random moments each settles exactly once, no effect happens twice, every success has its effect and every `NODE_OFFLINE` has none; afterwards sockets, timers, listeners, processes and temporary files are as many as before.",
  },
  {
    id: "link.backoff-full-jitter",
    says: "The wait before attempt n is uniform between 0 and the lesser of 30 s and 0.2 s × 2^n from the first retry on, and it starts over only after a link that lived 30 s.",
  },
  {
    id: "link.never-gives-up",
    says: "After 8 h of refused or dropped connections, on a fake clock, the node still dials at gaps of at most 30 s plus the connect deadline of 20 s, and is `online` within 51 s of the path's return.",
  },
  {
    id: "link.wake-dials-at-once",
    says: "After a clock jump of 1 min, 30 min or 8 h the node tests its link or dials within 1 s, whatever wait was pending.",
  },
  {
    id: "link.restart-storm",
    says: "A gateway restarted 10 times in 5 s, also between TCP accept and handshake, has its node `online` within 31 s of the last start, with at most one log line an attempt.",
  },
  {
    id: "link.attempts-visible",
    says: "While not linked, `fairlead node status --json` shows since, reason code, number of attempts, time of the last and of the next attempt and the next step, exit 5.",
  },
  {
    id: "link.herd-spread",
    says: "Of 200 nodes whose gateway is gone for 5 s the most connects in 100 ms stay under 3 times the mean, and all are `online` within 45 s.",
  },
  {
    id: "link.admission-limited",
    says: "A node beyond the gateway's admission rate gets `RATE_LIMITED` with `details.retryAfterMs`, waits at least that long and is then linked.",
  },
  {
    id: "link.hung-call-blocks-no-reconnect",
    says: "With a handler that never returns and a state callback that never returns, a cut link is back within twice the time without them, and new calls are answered.",
  },
  {
    id: "link.late-goodbye-harmless",
    says: "The close of an old connection delivered after a new one is registered leaves the node `online` for every watcher, takes nothing from its lists and ends no call of the new connection.",
  },
  {
    id: "link.new-process-not-resumed",
    says: "With a new boot id the old process's streams end at once and the new link is accepted within 5 s even while the old connection is half open; with the same boot id streams resume.",
  },
  {
    id: "link.refused-identity-closes-link",
    says: "When a node's enrolment ends under a live link, the link is closed with the identity code after at most one refused message, and no request is refused in a loop.",
  },
  {
    id: "link.stop-during-backoff",
    says: "SIGTERM while the node waits between attempts ends it within 2 s with exit 0, its local clean-up done, without the gateway.",
  },
  {
    id: "link.second-address-used",
    says: "With a join code of two addresses, the first of which answers nothing, the node is `online` through the second within 21 s.",
  },
  {
    id: "link.method-not-known",
    says: "A method that the linked node's version lacks fails with `VERSION_UNSUPPORTED` before dispatch; unknown fields and message kinds from a newer peer are ignored and the link stays up.",
  },
  {
    id: "link.stream-pool-follows-load",
    says: "An idle node holds one parked stream, 200 concurrent calls raise the pool to at most 64 with the rest waiting in order within their deadlines, the first of the new streams serves a call before the last is open, and 30 s after the load the pool is at one again.",
  },
  {
    id: "link.broken-call-costs-its-stream-only",
    says: "A call cancelled, reset or failed in the middle of its answer ends with its own code, its stream is replaced, and no byte of it reaches the next call on the link.",
  },
  {
    id: "link.one-channel-one-connection",
    says: "After its gateway was killed and started again, no stream of the node's old channel opens a connection; the new one begins with a hello and shows the certificate that is on disk then.",
  },
  {
    id: "link.early-status",
    says: "A node that answers an upload or bidirectional call before its end has its status delivered at once, and the next call on that stream gets no byte of the old one.",
  },
  {
    id: "link.bidi-both-stopped",
    says: "A bidirectional call whose two sides both stop reading for 3 s while each sends 64 MiB ends whole once both read again; grants never wait behind data.",
  },
  {
    id: "link.key-repeated-at-once",
    says: "50 repeats of one `at_most_once` call sent at the same moment run it once and get 50 equal answers.",
  },
  {
    id: "link.ledger-before-effect",
    says: "When the node's ledger cannot be written, an `at_most_once` call is refused with `DISK_FULL` or `IO_ERROR` before it runs, and `idempotent` calls go on.",
  },
  {
    id: "link.agent-restart-at-most-once",
    says: "After SIGKILL and restart of the node agent a finished `at_most_once` call is answered from the ledger on disk, and one that was running ends with `OUTCOME_UNKNOWN`; neither runs again.",
  },
  {
    id: "link.answers-bound-to-node",
    says: "A node that answers, cancels or asks about another node's call id, or an old connection that answers a newer one's call, gets `NOT_FOUND`, and the real call's result is unchanged; a `Serve` stream without an accepted hello on its own connection is refused.",
  },
  {
    id: "link.ill-behaved-node",
    says: "Second answers, answers to unknown calls, a second hello and data after a cancel are dropped and counted; a node that keeps sending a cancelled answer has that stream reset within 1 s, and gateway memory grows by at most 16 MiB, also when it is no grpc-js client and ignores the end of its stream.",
  },
  {
    id: "link.strangers-at-the-port",
    says: "2,000 connections that stay silent, send random bytes or stop in the handshake for 60 s are each closed within 20 s, and calls to linked nodes stay under five times their usual time.",
  },
  {
    id: "link.drained-node",
    says: "After `fairlead nodes drain` new calls get `WORKSPACE_ACCESS_UNAVAILABLE` with reason `draining` while running ones finish; at the drain's deadline what still runs ends with `CANCELLED`, `details.reason` = `draining`, and nothing of it runs on the node.",
  },
  {
    id: "link.one-version-back",
    says: "A node one protocol version behind its gateway, or ahead of it, links, is marked `upgrade` in `nodes ls`, and serves the methods both know under the same policy.",
  },
  {
    id: "link.outside-window",
    says: "A node two versions off is refused with `VERSION_UNSUPPORTED`, both versions in `details` and a hint that says which side to upgrade, and `nodes ls` shows it with that reason.",
  },
  {
    id: "link.agent-restart-job",
    says: "A `job` survives SIGKILL and restart of its node agent under the same process id, and its output and exit status reach the caller whole.",
  },
  {
    id: "link.cut-job",
    says: "A `job` goes on while its link is cut; after the reconnect its output continues from the next byte with none lost or doubled.",
  },
  {
    id: "link.gateway-killed-job",
    says: "A `job` started through a gateway that is then killed is re-attached by its id and offset once a gateway has the node again, with its output whole.",
  },
  {
    id: "link.gateway-killed-at-most-once",
    says: "The outcome of an `at_most_once` call whose gateway was killed after dispatch is answered by call id from the node's ledger after the restart, with no second run.",
  },
  {
    id: "link.gateway-killed-idempotent",
    says: "An `idempotent` call repeated after its gateway was killed and started again returns the same answer as an undisturbed call.",
  },
  {
    id: "link.agent-restart-idempotent",
    says: "An `idempotent` call that meets the restart or upgrade of its node agent is repeated and returns the same answer.",
  },
  {
    id: "link.machine-lost",
    says: "When a node's machine never comes back, its running calls end by their deadline: an `idempotent` one with `NODE_OFFLINE`, a `job` or `at_most_once` one with `OUTCOME_UNKNOWN`, the job with all output received so far.",
  },
  {
    id: "link.outcome-asked-again",
    says: "`OUTCOME_UNKNOWN` carries `details.callId`; asking with it gives the recorded outcome for 10 min after the call ended, and later `OUTCOME_UNKNOWN` again, never a new run.",
  },
  {
    id: "link.older-owner-refused",
    says: "A gateway that claims a node with an epoch lower than the one the node has accepted is refused, and no call of it runs.",
  },
  {
    id: "link.ping-rate-agreed",
    says: "HTTP/2 keepalive is off, and a close with `too_many_pings` from a proxy doubles the heartbeat's interval and logs one line.",
  },
  {
    id: "link.stale-publication-dropped",
    says: "A publication of an old connection that arrives after one of the new connection changes nothing, and an equal publication after a reconnect produces no change event.",
  },
  {
    id: "link.slow-watcher-coalesced",
    says: "A subscriber that stops reading holds a bounded queue: on resuming it gets `gap` or the latest state of each node, never a partial history shown as whole, and 1,000,000 events grow memory by at most 16 MiB.",
  },
  {
    id: "link.link-and-gateway-budget",
    says: "With 20 stopped readers on one link its bytes in flight stay within 64 MiB, those of the gateway over 40 such links within 1 GiB, and a short call to each of these nodes succeeds within 1 s; a call whose reader goes on is never below its first credit.",
  },
  {
    id: "link.heartbeat-behind-bulk",
    says: "Ten transfers over a link limited to 1 MiB/s for 60 s cause no missed heartbeat, no reconnect and no state other than `online`.",
  },
  {
    id: "link.hanging-handler-shown",
    says: "When every third call to a node hangs, the others are answered within twice their usual time, no call is repeated more than 3 times, and `nodes show` counts the calls that timed out and names their method.",
  },
  {
    id: "link.stuck-dialler-ends",
    says: "An agent that is offline and starts no attempt for 120 s ends with exit 1, so that its service starts it again.",
  },
  {
    id: "link.restart-needed-shown",
    says: "An agent whose installed version is newer than the running one shows `restart needed` with both versions in `node status` and `nodes show`, and does not end itself.",
  },
  {
    id: "link.short-call-cost",
    says: "A short call over a link takes at most half the median time of the same grpc-js unary call over a direct mutual-TLS connection in the same run, and one link carries at least twice as many a second at 16 in flight.",
  },
  {
    id: "link.upload-at-50-ms",
    says: "Through a proxy with 50 ms of round trip one upload runs at 25 MiB/s or more and at least 20 times as fast as with the library's default window.",
  },
  {
    id: "link.idle-links-linear",
    says: "Memory for each idle link at 1,000 links is at most 1.2 times that at 100.",
  },
  {
    id: "link.late-result-recorded",
    says: "A result that comes after its call's deadline is not delivered; the audit record of that call id then shows outcome `late`.",
  },
] as const;
