/** The promises of `memory` that the tests prove: `{ id: "memory.some-id", says: "the whole sentence" }`. */
export const memory = [
  {
    id: "memory.chunks",
    says: "Chunks are at most 400 tokens with at most 80 of overlap, cover every line, carry exact line numbers from 1, are equal for equal text, cut lines longer than a chunk, and never split a surrogate pair.",
  },
  {
    id: "memory.keyword-search",
    says: "A query matches passages with all its words first and passages with some of them after, at a lower rank; quotes, `*`, `-`, `NEAR`, an unbalanced bracket and text without any word never cause an error.",
  },
  {
    id: "memory.fresh-or-flagged",
    says: "In 200 rounds of write and immediate search each answer holds the new text or is marked not fresh with the index time.",
  },
  {
    id: "memory.reader-stops-not-writer",
    says: "Cancelling or timing out a search never ends a running sync, and a sync that failed is tried again with back-off until it succeeds.",
  },
  {
    id: "memory.index-damaged",
    says: "An index file that was altered or cannot be opened is reported in `memory status` and by searches, is rebuilt from the nodes' files, and is never answered from as if it were empty.",
  },
  {
    id: "memory.worker-one-exchange",
    says: 'The Memory worker started with `--files DIR` reads one JSON request from stdin to its end, writes exactly one JSON document, `{"result"}` or `{"error":{"code","message","details"?}}`, to stdout and ends; log text goes to stderr only.',
  },
  {
    id: "memory.worker-watch-lines",
    says: "Started with `--watch-files DIR` and one JSON line on stdin, the worker writes one JSON object a line: first `available` with epoch and cursor after a complete scan, then `changed` with path and kind for each edit, and no `unavailable` in a run without faults.",
  },
  {
    id: "memory.worker-bad-start",
    says: "The worker started with no mode, an unknown mode, a missing folder or an extra argument exits non-zero with one line on stderr and nothing on stdout, before it opens a file.",
  },
  {
    id: "memory.worker-bad-request",
    says: "Malformed JSON, an unknown operation or field, a wrong type and a request over the size limit give `INVALID_ARGUMENT` or `TOO_LARGE` that names the field or limit, and no file is touched; a second input line in watch mode ends the watch with `INVALID_ARGUMENT`.",
  },
  {
    id: "memory.worker-input-closed",
    says: "Closing stdin of a watch during start-up leaves no output, no watcher and no process after 2 s; closing it later closes the watcher once, delivers the events already due and exits 0.",
  },
  {
    id: "memory.search-answer",
    says: "Each hit of `fairlead memory search --json` carries node, workspace, path, first and last line, digest, score and text, and the answer carries for each workspace the time of the last verified index state, the count of pending files and whether it is fresh.",
  },
  {
    id: "memory.search-many-workspaces",
    says: "Without `--workspace` a search covers all workspaces that the caller may read, and one that cannot be verified is named with its reason beside the hits of the others.",
  },
  {
    id: "memory.get",
    says: "`fairlead memory get NODE:PATH --from N --lines N` prints these lines of the file on the node; a missing file exits 4, `--from 0` exits 2, and a start past the end prints nothing, says how many lines there are and exits 0.",
  },
  {
    id: "memory.offline-search",
    says: "With the node offline a search answers from the last verified index, marked with reason `node_offline` and the time, while `get`, `memory_get` and writes fail with `WORKSPACE_ACCESS_UNAVAILABLE` and exit 5 and no gateway file stands in; after a revocation the search gives nothing of that node.",
  },
  {
    id: "memory.providers",
    says: "Every embedding provider answers one vector for each text in the order given, never has more calls open than its named number, and ends a call when it is cancelled; with none configured searches are by keyword and `memory status` says so.",
  },
  {
    id: "memory.hybrid-ranking",
    says: "Vector and keyword scores are weighted 0.7 and 0.3 over the ways that answered only: a perfect keyword hit scores 1 when no vectors answered, and equal inputs give the same order every time.",
  },
  {
    id: "memory.ranking-time-and-diversity",
    says: "With time decay on, of two equal passages the one 30 days older scores half, files marked evergreen do not age, and of near-identical passages one comes first and the others fall behind different ones.",
  },
  {
    id: "memory.vector-paths-agree",
    says: "Vector search with and without the native extension returns the same ten best passages of 5,000 in the same order.",
  },
  {
    id: "memory.incremental",
    says: "After one paragraph of one of 1,000 files changed, one file is read and only the chunks that changed are sent to the embedding provider; after a rename without edit, or touching the file, none is sent.",
  },
  {
    id: "memory.provider-changed",
    says: "After a change of embedding provider, model or chunking, keyword search goes on at once, the index is rebuilt in the background without a command, and no answer ever mixes vectors of two models.",
  },
  {
    id: "memory.changed-while-embedding",
    says: "When one of ten files changes or vanishes while its text is embedded, the other nine are published, its old text is in no later answer, it stays pending and the next sync reads that file alone.",
  },
  {
    id: "memory.provider-fails",
    says: "When the embedding provider refuses, times out or answers 429, searches answer by keyword and say that vectors are unavailable, files stay pending and are embedded by later tries that keep to the named waiting time.",
  },
  {
    id: "memory.provider-bad-vectors",
    says: "A provider that answers with too few vectors, another dimension, NaN or infinity has none of that batch stored, the files stay pending with the reason, and searches do not fail.",
  },
  {
    id: "memory.search-deadline",
    says: "When vectors do not answer within the search's deadline (30 s by default), keyword hits are returned marked as partial, and the next search is not held back by it.",
  },
  {
    id: "memory.cache-bounded",
    says: "The embedding cache holds at most 50,000 entries: the least recently used go first, and a run with 60,000 different chunks still ends with a complete index.",
  },
  {
    id: "memory.no-credentials-on-nodes",
    says: "With embedding credentials configured, none of their bytes appear in the worker's environment, arguments or input, in a message to a node, or in logs, errors, audit and `memory status`; the worker's environment holds `HOME` and `PATH` only and it opens no index.",
  },
  {
    id: "memory.bench-incremental",
    says: "Bringing the index up to date after one of 1,000 files changed takes at most a fiftieth of the time of the first indexing.",
  },
  {
    id: "memory.worker-blocked-output",
    says: "A worker whose stdout is read slowly delivers every line before it exits and stays under 64 MiB more memory, and one whose stdout is closed exits within 2 s without using a full core.",
  },
  {
    id: "memory.read",
    says: "`read` with `from` and `lines` gives these lines with line numbers from 1, cuts at `maxChars` between characters and says so, and gives status `not_found` with empty text for a missing memory file.",
  },
  {
    id: "memory.inspect",
    says: "`inspect` of a batch of 1,000 paths answers in one call with path, size, modification time and digest for each, and null for one that is gone.",
  },
  {
    id: "memory.bench-lasting-worker",
    says: "Inspecting 1,000 files through the lasting worker takes at most a tenth of the time of 1,000 one-exchange runs.",
  },
  {
    id: "memory.same-answers-everywhere",
    says: "The same list, inspect and read requests give equal results and equal error codes by one exchange, over the lasting worker's framed stdio and through the gateway's typed client, also after the node restarted the worker.",
  },
  {
    id: "memory.file-read-troubles",
    says: "A memory file that cannot be opened for 100 ms is tried again and indexed, one that stays unreadable is listed as failed with its code, and a FIFO in `memory/` is skipped in under 1 s; the others are indexed in each case.",
  },
  {
    id: "memory.policy-hides-at-once",
    says: "Text of a file that policy no longer lets a session read is in no answer of search, `get` or `memory_get` from the next call on, without a reindex, while other sessions still find it.",
  },
] as const;
