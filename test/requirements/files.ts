/** The promises of `files` that the tests prove: `{ id: "files.some-id", says: "the whole sentence" }`. */
export const files = [
  {
    id: "files.access-states",
    says: "`acquire` of a workspace gives `WORKSPACE_ACCESS_UNAVAILABLE` with `details.reason` `not_started` after declare, a handle that acts on the node's folder after register, and the same code with reason `stopped` after release; a name that was never declared gives `NOT_FOUND`.",
  },
  {
    id: "files.access-old-handle-dead",
    says: "After release and a new register of the same workspace, every method of a handle taken before fails with `WORKSPACE_ACCESS_UNAVAILABLE` while a new handle works, and releasing the old registration a second time leaves the new one active.",
  },
  {
    id: "files.access-one-binding",
    says: "Root spellings `/w`, `/w/` and `/w/.` are one binding; two declarations of one name with another node or root are refused at start with `INVALID_ARGUMENT`, `details.field` naming the second, and neither is registered. A second active registration of one workspace is refused with `ALREADY_EXISTS` and the first keeps working.",
  },
  {
    id: "files.policy-order",
    says: "A path is judged in this order: a `..` segment is refused, a deny glob denies, `ask: always` asks, an allow glob of the operation's kind allows, an exact grant allows, `ask: on-miss` asks, else `POLICY_DENIED`; `details.rule` names the step that decided.",
  },
  {
    id: "files.policy-globs",
    says: "A table of at least 30 pairs holds: `**/x` also matches at the root, `**` covers dotfiles, a deny of `**/.ssh/**` covers the folder itself, braces expand for files and folders, and literal grants give `*`, `?` and `[x]` no meaning.",
  },
  {
    id: "files.policy-bare-directory",
    says: "An allow entry `d` or `d/` means the folder and everything below it, `d/*` its direct children only; `fairlead policy explain` states this meaning, and a denial names the entry that nearly matched.",
  },
  {
    id: "files.denied-names-hidden",
    says: "Paths covered by a deny glob do not appear in listings, trees, manifests or watch events, and a recursive removal or move that would take one along is refused and names the rule.",
  },
  {
    id: "files.deny-self-check",
    says: "At start and after each change of policy node and gateway try every deny glob against a path that it must catch, requested and canonical; a deny that does not deny ends the start, or keeps the last good policy, with the rule named.",
  },
  {
    id: "files.deny-aliases",
    says: "A denied path stays denied in composed and decomposed form, in other case on a volume that ignores case, through an allowed link, and with outer spaces; a deny rule for a name with a newline hits that name and not the one with a slash in its place.",
  },
  {
    id: "files.node-has-final-word",
    says: "A gateway that asks for a path which the node's own configuration denies gets `POLICY_DENIED` with `details.side` `node`, whatever grant or approval it claims, and a call that carries the lease of an earlier registration gets `WORKSPACE_ACCESS_UNAVAILABLE` from the node.",
  },
  {
    id: "files.listing-for-model",
    says: "A listing given to a model holds as many whole entries as fit in 64 KiB, says how many it leaves out, and its cursor continues right after the last entry shown, for folders of 3 and of 30,000 entries.",
  },
  {
    id: "files.caller-cannot-widen",
    says: "Limits, follow and identity fields set by a caller never exceed the policy's, fields that skip a check do not exist in the public interface, and `fairlead nodes call` of a file tool passes the same policy, approval and audit.",
  },
  {
    id: "files.audit-every-operation",
    says: "Every file operation, allowed, denied, failed or cancelled, leaves one audit record with operation, node, requested and canonical path, decision, deciding rule or grant, code, bytes, digest, duration, agent and session, and no file content.",
  },
  {
    id: "files.access-reasons",
    says: "A `files` command on a workspace that cannot be reached exits 5 with `WORKSPACE_ACCESS_UNAVAILABLE`, a hint, and `details.reason` one of `not_started`, `stopped`, `node_offline`, `draining`, `revoked`; `retryable` is false for `revoked` and true for the others.",
  },
  {
    id: "files.no-host-paths-leak",
    says: "No error, listing, event or audit answer that leaves a node holds a path outside its exports or an absolute path of its disk, except for the root that the node's own `workspace ls` shows.",
  },
  {
    id: "files.path-invalid",
    says: "An absolute path, NUL, a `..`, `.` or empty segment, a trailing `/..` and text that is not valid UTF-8 give `PATH_INVALID` before any call to the node, also `allowed/../other` where both are allowed. With `root` exported, no path, glob or grant ever matches `root2` beside it.",
  },
  {
    id: "files.path-windows",
    says: 'For a node with platform `windows` a drive, UNC or device prefix, `CON`, `aux.txt`, a trailing dot or space and any of `<>:"|?*` in a name give `PATH_INVALID` with the position, and its paths match globs written with forward slashes; on a POSIX node a backslash separates nothing.',
  },
  {
    id: "files.race-swapped-parent",
    says: "On a node with `containment: kernel`, while a process flips a parent folder 100,000 times between a folder and a link to the outside, 10,000 reads, writes and recursive removals return no byte from outside and change nothing outside; single failures are allowed.",
  },
  {
    id: "files.race-after-open",
    says: "On a node with `containment: kernel`, a file replaced by a link to a secret between check and open gives `PATH_CHANGED` or `SYMLINK_REFUSED` with no byte sent, and one replaced after it was opened is served from the opened file with the digest of these bytes.",
  },
  {
    id: "files.read-range",
    says: "`fairlead files cat --offset O --length L` writes the bytes O to O+L-1 and nothing else to stdout, fewer at the end of the file and none past it, and exits 0 for an empty file.",
  },
  {
    id: "files.tree-both-ways",
    says: "`fairlead files get` of a folder brings every readable regular file, every empty folder and, as links, those whose target stays inside it, dotfiles included, and its `--json` result counts files, folders, links and bytes separately, equal to the node's disk; `put` of it with `--jobs 8` stores the same tree as with `--jobs 1`.",
  },
  {
    id: "files.arguments-refused",
    says: "A negative, fractional or infinite size, offset or length, a malformed digest or `--if-match` value, a page size of 0 or over 10,000 and an altered cursor give `INVALID_ARGUMENT` with `details.field`, with no call to the node and no approval.",
  },
  {
    id: "files.special-file",
    says: "A FIFO without a writer, a socket and a device give `UNSUPPORTED_FILE_TYPE` in under 1 s for read, tree, manifest and indexing, and another call to that node is answered meanwhile.",
  },
  {
    id: "files.symlink-trusted-target",
    says: "A folder outside the root that the node names in `allowSymlinkTargets` can be read through a link and written only when that entry allows writing; without the entry the same link gives `PATH_ESCAPES` and the hint names the setting.",
  },
  {
    id: "files.lease-lost-in-flight",
    says: "Releasing a workspace during a read or write aborts it and rejects a result that arrives later; a write whose rename had happened fails with `details.publication` `committed`, an earlier one leaves target and folder as they were.",
  },
  {
    id: "files.offline-never-local",
    says: "With another file planted at the same path on the gateway's disk and the node cut off, stat, list, read, write, sync and watch give reason `node_offline` and the planted file is neither returned nor changed; the same holds after a gateway restart until the node is back.",
  },
  {
    id: "files.stat",
    says: "`fairlead files stat` returns path, kind, size, mode and modification time without reading content, and permission for that one path is enough: its parent and siblings stay closed.",
  },
  {
    id: "files.list-pages",
    says: "A folder of 4,101 entries lists completely in pages of 1,000 in name order, and every entry that exists during the whole listing appears exactly once although 500 others are created and removed between the pages.",
  },
  {
    id: "files.list-recursive",
    says: "`fairlead files ls --recursive --limit N` stops after N entries with a cursor that continues at the next one, never enters a linked folder, and ends on a tree where two links point to their own parent.",
  },
  {
    id: "files.make-folders",
    says: "`fairlead files mkdir` makes one folder and refuses an existing entry with `ALREADY_EXISTS` and exit 6. A write makes missing parents itself, with `createParents: false` it fails with `NOT_FOUND` naming the parent, and a write that fails later removes the folders it made.",
  },
  {
    id: "files.remove",
    says: "`fairlead files rm` removes a file and an empty folder, refuses a folder that has entries with `NOT_EMPTY` unless recursion was asked for, refuses a file that no longer has the `if-match` digest with `CONFLICT`, and refuses the workspace root with `INVALID_ARGUMENT`.",
  },
  {
    id: "files.move",
    says: "`fairlead files mv` renames inside one workspace without sending content, and refuses an existing target with `ALREADY_EXISTS`, a folder moved into itself with `INVALID_ARGUMENT` and a missing source with `NOT_FOUND`, each time leaving both paths as they were.",
  },
  {
    id: "files.write-disk-full",
    says: "A write to a full disk fails with `DISK_FULL` and `ENOSPC` in details, the old content is intact and no staged file or part remains, on the node for `put` and on this machine for `get`.",
  },
  {
    id: "files.write-body-damaged",
    says: "A body that is shorter, longer or other than its announced size and digest gives `INTEGRITY_FAILURE`, with the target as it was and no staged file.",
  },
  {
    id: "files.tree-bad-entry",
    says: "Among 1,000 good files an unreadable file, an absolute, a dangling and a looping link and a FIFO are each listed with path and code in `failed`, the 1,000 arrive and the exit is 7; in strict mode the transfer fails, names the first and publishes nothing.",
  },
  {
    id: "files.node-argument",
    says: "An unknown node exits 4, an ambiguous prefix exits 2 and lists the candidates, and with no node paired the error says so and hints `fairlead invite`; all without waiting for a node.",
  },
  {
    id: "files.export-live-change",
    says: "On a running node `fairlead node workspace add NAME DIR` makes the workspace usable on the gateway within 2 s without a restart, and `rm NAME` ends its handles and transfers with reason `stopped` within 2 s and leaves every file in DIR as it was.",
  },
  {
    id: "files.symlink-rules",
    says: "By default a link in any component gives `SYMLINK_REFUSED` for read, list and write, naming the link and the setting `followSymlinks`. With it on, a link that stays inside is followed and its canonical path judged, one that leads outside gives `PATH_ESCAPES`, and a linked leaf is never written through.",
  },
  {
    id: "files.hardlink",
    says: "A file with more than one name gives `HARDLINK_REFUSED` for read and for write unless the export allows hard links, and a refused write leaves both names with their old content.",
  },
  {
    id: "files.export-illegal-root",
    says: "`fairlead node workspace add` refuses `/` with `INVALID_ARGUMENT`, a missing folder with `NOT_FOUND`, a file with `NOT_A_DIRECTORY` and a root equal to or inside the state folder with `POLICY_DENIED`, and accepts one with spaces or reached through a link. A state folder inside an exported root stays closed with `POLICY_DENIED` whatever globs and grants say.",
  },
  {
    id: "files.round-trip",
    says: "Files of 0 B, 1 B, 4 MiB - 1, 4 MiB, 4 MiB + 1, 17 MiB and 4 GiB + 1 B (sparse) that are put to a node and got back have equal digest, mode and modification time to the microsecond, and each answer carries the size and digest of the stored file.",
  },
  {
    id: "files.answers-name-source",
    says: "Every stat, list, read, write and transfer answer names node id, workspace, requested path and canonical path inside the export and, where content is involved, size and digest; one file read directly and through an allowed link gives the same canonical path and digest.",
  },
  {
    id: "files.put-default",
    says: "`fairlead files put` without `--if-match` onto a remote file that changed since it was last read exits 6 with `CONFLICT` and a hint that names `--if-match`; onto an existing file that was never read it asks on a terminal, and without a terminal it exits 6 and asks nothing.",
  },
  {
    id: "files.tree-cut",
    says: "A tree stream cut at every entry boundary and at 20 random bytes ends in an error and is never reported complete without the closing count, size and digest, and every file that is present under its name is whole.",
  },
  {
    id: "files.manifest-across-restart",
    says: "After a restart of the node agent an unchanged tree of 5,000 files is served from the manifest with no content read again, while an edit that keeps size and restores the modification time, and an edit in the same clock tick as the last hashing, give a new digest.",
  },
  {
    id: "files.resume-after-restart",
    says: "After the command, the gateway or the node agent was killed at 40 % of a transfer, the same command sends at most 70 % of the bytes and ends with the source's digest.",
  },
  {
    id: "files.resume-checks-source",
    says: "When the source changed, or a byte of the kept part was altered, between cut and resume, the result has the digest of the source as it is now, never a mixture.",
  },
  {
    id: "files.cancel-leaves-nothing",
    says: "A transfer cancelled at 30 % leaves nothing under the target's name, no staged file and no open handle on the node after 1 s, and Ctrl-C exits 130; a part whose owner never returns is removed after 24 h.",
  },
  {
    id: "files.sync-only-changed",
    says: "After one of 1,000 files changed `fairlead files sync`, and with `--push` the other way, transfers that file's content and no other, prints files and bytes sent and reused, and leaves files that exist only at the target in place; a further run sends zero content bytes.",
  },
  {
    id: "files.sync-delete",
    says: "Without `--delete` sync removes nothing; with it exactly the files missing at the source are removed at the target, but none that an exclude glob matches, dotfiles included. `--dry-run` prints the same list of changes as the real run after it and changes nothing.",
  },
  {
    id: "files.sync-both-changed",
    says: "When a path changed on both sides since the last sync, sync leaves both versions as they are, lists the path with both digests, carries all other changes and exits 7, and the workspace can afterwards be synced, released and stopped without an error.",
  },
  {
    id: "files.sync-root-replaced",
    says: "When the source root is another folder than at the last sync (new identity), is empty, or lacks more than half of the files known from then, `sync --delete` removes nothing unless a person confirms it on a terminal, and without one exits 6 with `CONFLICT` and the reason.",
  },
  {
    id: "files.content-reused",
    says: "A tree with 100 copies of one 1 MiB file sends that content once, and a file that was only renamed since the last sync sends zero content bytes.",
  },
  {
    id: "files.grant-exact",
    says: "A standing grant allows one node id, one kind and one requested path with the canonical path it was given for; a sibling, a child, another kind and the same path on another node still ask.",
  },
  {
    id: "files.policy-by-node-id",
    says: "File policy and grants follow the node's id: a renamed node keeps them, and another node that later gets the old alias has none. `~` in an allow or deny rule is expanded on the node with its home and its platform's separators, never with the gateway's.",
  },
  {
    id: "files.approval-shown",
    says: "An operation that policy asks about waits as one approval that shows verb, node, agent, requested and canonical path, size and, for a tree, the number of entries below it; once allowed it runs with exactly these parameters.",
  },
  {
    id: "files.approval-outcomes",
    says: "A denied approval gives `APPROVAL_DENIED`, one not answered within 120 s `APPROVAL_EXPIRED`, a caller that does not wait gets `APPROVAL_REQUIRED` with `details.approvalId`; the command exits 3 and nothing was sent or changed.",
  },
  {
    id: "files.grant-life",
    says: "A standing grant names its agent, session or tool and an end time, is stored only after the operation succeeded, is listed by `fairlead approvals grants ls`, and asks again after its end time or after `grants revoke`.",
  },
  {
    id: "files.approved-then-swapped",
    says: "On a node with `containment: kernel`, when an approved path is replaced by a link, another inode or another folder before the operation takes effect, nothing is carried out under that approval and a new one that shows the new target is asked.",
  },
  {
    id: "files.policy-tightened-before-effect",
    says: "A deny set after the approval was given and before the operation takes effect wins: `POLICY_DENIED`, no byte sent, nothing changed.",
  },
  {
    id: "files.stall-not-total",
    says: "A transfer to a reader at 1 MB/s that takes 3 min succeeds, and one in which no byte moves for 60 s ends with `DEADLINE_EXCEEDED`.",
  },
  {
    id: "files.resume-after-cut",
    says: "A download cut at 40 % goes on from the last verified byte after the link is back, and the result's digest equals the source's; the same holds for an upload and for a tree.",
  },
  {
    id: "files.workspaces-ls",
    says: "`fairlead workspaces ls --json` gives for each exported workspace its node, name, state, since, and, when it is not available, reason and next step, and for its freshness the times of the last event and the last full scan and the watch coverage.",
  },
  {
    id: "files.policy-both-sides",
    says: "A path that the node allows and the gateway denies is refused with `details.side` `gateway`, the reverse with `node`, and only a path that both allow is served.",
  },
  {
    id: "files.policy-canonical-recheck",
    says: "When the canonical path that the node reports is not allowed for the session, a read ends before its first byte and a write before anything changes, with `POLICY_DENIED` and `details.side` `gateway`.",
  },
  {
    id: "files.policy-live",
    says: "A policy change on either side holds for the next operation without a restart, and a running transfer or watch that it forbids ends with `POLICY_DENIED` within 1 s.",
  },
  {
    id: "files.transfer-output",
    says: "While `get`, `put` and `sync` run, progress goes to stderr and only on a terminal; with `--json` stdout is one document with `filesSent`, `bytesSent`, `filesReused`, `bytesReused`, `failed` and `durationMs`.",
  },
  {
    id: "files.tree-as-archive",
    says: "`fairlead files get NODE:DIR FILE.tar` gives one tar archive that GNU tar unpacks to the same tree (names, modes, links inside the root, empty folders), in constant memory; a bad entry is left out and listed with exit 7, and a cut download is never a file under that name.",
  },
  {
    id: "files.write-race-one-winner",
    says: "Of 50 concurrent writes through Fairlead with one `if-match` digest exactly one succeeds and 49 give `CONFLICT`, of 50 with `absent` 49 give `ALREADY_EXISTS`, and the file holds the winner's bytes.",
  },
  {
    id: "files.write-conditions",
    says: "With `if-match HASH` a write succeeds only while the target has that digest, else `CONFLICT` with `details.expected` and `details.actual`; with `absent` an existing target gives `ALREADY_EXISTS`; with `any` it is replaced. A refused write leaves the target's bytes, mode and times as they were.",
  },
  {
    id: "files.kind-mismatch",
    says: "Reading or replacing a folder gives `NOT_A_FILE`, listing a file `NOT_A_DIRECTORY`, a file that the operating system refuses `IO_ERROR` with `EACCES` in details, and each message names the path. A missing source of `get`, `put` or `sync` gives `NOT_FOUND`, exit 4, and no empty file or folder at the target.",
  },
  {
    id: "files.permission-kinds",
    says: "Removing, moving and making folders are permissions of their own: a workspace that allows only reading and writing refuses each of them with `POLICY_DENIED`, and nothing changes.",
  },
  {
    id: "files.manifest-unreadable",
    says: "A manifest file that was cut or altered is rebuilt from the disk and never read as an empty workspace, and `sync --delete` at that moment removes nothing.",
  },
  {
    id: "files.audit-cannot-be-written",
    says: "When the audit record cannot be stored, a write, removal or move is refused with `DISK_FULL` or `IO_ERROR` and nothing on the node has changed.",
  },
  {
    id: "files.access-code-not-text",
    says: "The test for an unavailable workspace finds `WORKSPACE_ACCESS_UNAVAILABLE` through five levels of wrapped causes and after a gRPC round trip, and answers no for an error that only has the same message text.",
  },
  {
    id: "files.write-atomic",
    says: "During 1,000 replacements a reader in a loop sees only whole old or whole new content with the old mode, and after `kill -9` of the node agent at any of 20 points of a write the file is whole old or whole new and no staged file is left once the agent is back.",
  },
  {
    id: "files.write-reply-lost",
    says: "When the link breaks after a conditional write took effect and before its reply, the caller gets the stored success after the reconnect, the write was applied once and no `CONFLICT` is reported; if the node cannot say, the answer is `OUTCOME_UNKNOWN` with `details.callId`.",
  },
  {
    id: "files.max-file-bytes",
    says: "A file of exactly the node's `maxFileBytes` passes through `get`, `put`, `sync` and the tools, and one byte more gives `TOO_LARGE` with `details.limit` and `details.actual` before its first byte. A file that grows past the limit while it is read ends with `TOO_LARGE` and no byte past the limit sent.",
  },
  {
    id: "files.tree-limits",
    says: "A tree over 1,000,000 entries, a depth of 64 or a path of 4,096 bytes (or the node's own lower limits) is refused with `LIMIT_REACHED`, `details.limit` and `details.actual`, by the same check before an approval is asked and again during transfer, so that no approval is asked for a transfer that cannot run.",
  },
  {
    id: "files.hostile-tree",
    says: "Tree entries named `../x`, `/x`, `a/../../x`, `C:x`, `.`, empty or with NUL, a link followed by an entry below it, and a hard link to the outside, sent by either side, are each refused with `PATH_INVALID`, `SYMLINK_REFUSED` or `HARDLINK_REFUSED`, and nothing outside the target is made.",
  },
  {
    id: "files.hostile-sizes",
    says: "A peer that announces a file of 2^62 bytes, more entries than the limit, or sends more than it announced is cut off with `TOO_LARGE`, `LIMIT_REACHED` or `INTEGRITY_FAILURE` before disk or memory beyond the limit is used.",
  },
  {
    id: "files.attack-command",
    says: "`fairlead node doctor --attack` runs the containment suite in a folder of its own inside a real workspace, prints `containment` and the tries and escapes of each case, exits 1 when there is one, leaves the workspace byte-equal and ends within its time limit.",
  },
  {
    id: "files.store-keeps-used",
    says: "A content store over its configured size drops the least recently used content until it is under it, and never content that a running transfer, a snapshot or an index refers to.",
  },
  {
    id: "files.store-damaged",
    says: "Content whose stored bytes were altered is never served: it is fetched again from the node, and while the node is offline the read of a skill file that a kept snapshot holds fails with `INTEGRITY_FAILURE`.",
  },
  {
    id: "files.digest-is-no-permission",
    says: "Knowing a digest gives no content: a session that may not read any path with that content gets it neither by reading from nor by writing to the content store.",
  },
  {
    id: "files.rename-retried",
    says: "A final rename that fails with `EPERM` or `EBUSY` three times and then works succeeds; one that keeps failing is reported for that file as `IO_ERROR` with the errno, old content intact, and the rest of the tree goes on.",
  },
  {
    id: "files.move-across-devices",
    says: "A move between file systems removes the source only if it is still the file that was copied; if it was swapped meanwhile the swapped entry stays, and the move fails with `PATH_CHANGED` that names both paths.",
  },
  {
    id: "files.changed-while-read",
    says: "The digest reported for a file is that of the bytes delivered, and a file that changes between hashing and sending or while it is sent is sent whole in its new state or fails with `INTEGRITY_FAILURE`, never reported as complete with mixed content.",
  },
  {
    id: "files.tree-changes-meanwhile",
    says: "While 5,000 files are renamed and rewritten during a transfer of their folder, each file of the first listing arrives whole in one of its states or is listed in `failed`, and exit 0 is given only when `failed` is empty.",
  },
  {
    id: "files.names-exact",
    says: "Names with a newline, a quote, a leading `._`, 255 bytes, composed and decomposed `é` and, on a POSIX node, a backslash or a colon are listed, fetched and stored byte for byte. Two sources with one base name fetched into one folder get the same suffix on every run and neither is lost.",
  },
  {
    id: "files.name-twins",
    says: "Before `Foo` and `foo`, or composed and decomposed forms of one name, are written to a target that treats them as one, both are listed as not portable and neither overwrites the other; the rest of the tree is written.",
  },
  {
    id: "files.access-module-alone",
    says: "A program that imports only `fairlead/plugin-sdk/agent-workspace-runtime` can declare, register, acquire and release a workspace and make a bootstrap file policy and a memory client, with no module of sessions, tools, faces or a model loaded and the bundle reader loaded at its first use; the test for an unavailable workspace also knows errors made by a second installed copy.",
  },
] as const;
