/** The promises of `skills` that the tests prove: `{ id: "skills.some-id", says: "the whole sentence" }`. */
export const skills = [
  {
    id: "skills.parse-minimal-file",
    says: "A `SKILL.md` with only `name` and `description` in its frontmatter parses to exactly these, `user-invocable` true, `disable-model-invocation` false, no gates, and as body the bytes after the closing `---` line, unchanged. A byte order mark or CRLF line ends change no field, and the file's digest is that of its bytes on disk.",
  },
  {
    id: "skills.name-and-description-rule",
    says: "A name is 1 to 64 characters of `a-z`, `0-9` and single hyphens with none at either end, and a description is 1 to 1,024 characters after trimming; anything else makes the skill `broken` with field, line and rule.",
  },
  {
    id: "skills.every-field-type-checked",
    says: 'A known field of the wrong type (`name: 123`, `requires.bins: git`, `user-invocable: "yes"`) makes the skill `broken` with field and line; unknown fields are ignored, and a `__proto__` or `constructor` key changes no object.',
  },
  {
    id: "skills.broken-frontmatter-table",
    says: "An unquoted colon in the description, a tab indent, a duplicate key, a missing opening or closing line, an alias bomb and a byte that is not UTF-8 each give state `broken` with file, line, message and hint, each within 100 ms, and no field is guessed.",
  },
  {
    id: "skills.grouping-depth",
    says: "Folders are searched to 6 levels below a root, a `SKILL.md` ends the descent, dot folders inside a root and `node_modules` are not entered, and a `SKILL.md` at level 7 is not loaded. 100 shuffled directory orders give the byte-equal catalogue, sorted by name.",
  },
  {
    id: "skills.instruction-file-limit",
    says: "A `SKILL.md` of 256 KiB loads; one byte more is `broken` with `TOO_LARGE`, `details.limit` and `details.actual`, also when the file grew after its size was read, and no more than the limit is held in memory.",
  },
  {
    id: "skills.long-and-equal-names",
    says: "A prefixed name over 64 characters becomes one of at most 64 that starts with `<alias>-` and ends in a short hash of node id and name. Of two nodes whose prefixed names would be equal (`a` with `b-c`, `a-b` with `c`) the later claimant gets the hash and the first keeps its name, also after restarts and on every gateway.",
  },
  {
    id: "skills.broken-spares-the-others",
    says: "With 20 skills on a node, 6 of them broken, the next preparation holds the other 14 and `fairlead skills ls --json` lists the 6 with state `broken`, file, line and message.",
  },
  {
    id: "skills.published-with-prefix",
    says: "The skill `deploy` of the node with alias `devbox` stands as `devbox-deploy` within 2 s of the link's `ready` in every session that may use the node and is not bound to the workspace it lies in, and its companion files can be read by a session that has no right to run commands there.",
  },
  {
    id: "skills.read-prints-the-owners-bytes",
    says: "`fairlead skills read NAME` writes the instruction file of the owner to stdout byte for byte and `read NAME FILE` a companion file; an unknown NAME ends with `NOT_FOUND`, exit 4 and a hint with the nearest name, a skill of an offline node with `NODE_OFFLINE` and exit 5.",
  },
  {
    id: "skills.catalogue-limits",
    says: "Of 1,001 skills in one node's roots the first 1,000 by name are published, and of skills over 16 MiB together those that fit in name order; the rest are `skipped` with `LIMIT_REACHED` and both numbers. A full 16 MiB catalogue crosses the link without closing it.",
  },
  {
    id: "skills.atomic-save-never-absent",
    says: "During 1,000 saves by rename of one `SKILL.md`, a preparation in a tight loop never finds the skill missing, empty or broken.",
  },
  {
    id: "skills.gates-judged-on-owner",
    says: "A node's skill with `requires.bins: [fmt]` is eligible when `fmt` exists on the node alone, and ineligible when it exists on the gateway alone, with a reason that names the gate, `fmt` and the node's alias.",
  },
  {
    id: "skills.environment-values-stay",
    says: "The answer to an `env` gate carries the variable's name and whether it is set; its value is in no message, snapshot, log, audit record or `--json` output.",
  },
  {
    id: "skills.gates-follow-facts",
    says: "A binary that appears on the node's PATH makes its skill eligible within 60 s, without a restart on either side; facts of an offline node are never asked for anew.",
  },
  {
    id: "skills.gate-table",
    says: "`os`, all of `requires.bins`, one of `anyBins`, `env` set and not empty, and `config` true must hold, and every failing gate is reported, not only the first; `always: true` waives all but `os`. A binary counts only as a regular executable file on the PATH with which that machine runs commands, and a binary name with a slash makes the skill `broken`.",
  },
  {
    id: "skills.prompt-form",
    says: "The prompt catalogue lists name, description, location and version of each eligible, model-visible skill, sorted by name, every value escaped so that a description cannot open or close an element.",
  },
  {
    id: "skills.prompt-budget-steps",
    says: "Over 18,000 characters descriptions are shortened first, then dropped, then skills are cut from the end of the name order; no form exceeds the budget or 150 skills, notes included, down to a budget of 10 characters, which shows no name.",
  },
  {
    id: "skills.prompt-notes-true",
    says: "A cut catalogue ends with a note whose `included N of M` equals the skills shown and the skills eligible; a catalogue within both limits has no note.",
  },
  {
    id: "skills.ls-gives-reasons",
    says: "`fairlead skills ls --json` gives each skill's `name`, `owner`, `source`, `state` (`eligible`, `ineligible`, `shadowed`, `broken`, `offline` or `skipped`) and, unless eligible, at least one reason with `code` and `hint`. With `--session ID` it adds `snapshotId`, `builtAt`, the reason of the build and `staleSince` where stale; `skills show NAME` gives the same for one skill, also one that the prompt left out.",
  },
  {
    id: "skills.folder-name-is-fallback",
    says: "A skill without `name` takes its folder's name under the same rule; a `name` that differs from the folder wins and loads, and `fairlead skills check` warns with file and line.",
  },
  {
    id: "skills.hostile-text-is-only-text",
    says: "Markup, terminal escapes, bidirectional marks and newlines in a remote name, description or error add no element to the prompt catalogue, move no cursor in the CLI and forge no log line.",
  },
  {
    id: "skills.names-stable-when-nodes-join",
    says: "With `deploy` on the gateway and on nodes `boxa` and `boxb`, every order of joining, leaving and coming back gives `deploy`, `boxa-deploy` and `boxb-deploy`, and no session's known name changes meaning.",
  },
  {
    id: "skills.prefix-on-collision",
    says: "With `publish.prefix: on-collision` a remote skill has its plain name while that is free; when two remote skills or a gateway skill claim it, every remote claimant is prefixed and the gateway's keeps it, for each order of arrival.",
  },
  {
    id: "skills.equal-inputs-equal-snapshot",
    says: "Equal inputs give the equal snapshot id whatever their order, the time or the gateway; a change of any one of name, owner, root, instruction digest, bundle revision, gate result, agent list, configured roots, prompt limits or prompt format gives another. A changed companion file gives another id and a byte-equal prompt text.",
  },
  {
    id: "skills.unchanged-means-no-work",
    says: "A second preparation with nothing changed returns the same snapshot with no call to a node and no directory read.",
  },
  {
    id: "skills.precedence-across-hosts",
    says: "Root order decides between skills of one host; in a session bound to a remote workspace that workspace's skills stand under their plain names at the place of workspace skills, so its `deploy` shadows a bundled one, which is listed as `shadowed`. Of any other host the prefix keeps both, and neither the order of joining nor a label in a reply changes which is which.",
  },
  {
    id: "skills.gateway-skill-gated-where-commands-run",
    says: "In a session on a remote workspace the `os` and binary gates of a gateway's skill are judged by the facts of that workspace's node, so two sessions on two nodes may differ, and the reason names the machine that was asked.",
  },
  {
    id: "skills.snapshot-bytes-hold",
    says: "After an edit on the node, a running turn still reads the instruction bytes whose digest its snapshot names; a companion file that was not fetched before the edit answers `CONFLICT` with `details.expected` and `details.actual`, never the new bytes under the old snapshot.",
  },
  {
    id: "skills.caches-change-nothing",
    says: "Files written to `__pycache__`, `.venv`, `.git` or `node_modules` inside a skill change no snapshot id, travel in no bundle and mark no session.",
  },
  {
    id: "skills.next-turn-sees-the-change",
    says: "A skill added, edited, renamed or deleted in a workspace or a published root, and a root added or removed in configuration, is in the next preparation of an open session from 2 s after the save on, without restart, reset or new session.",
  },
  {
    id: "skills.special-file-never-blocks",
    says: "A FIFO, a socket or a device in place of `SKILL.md` or in a bundle gives `UNSUPPORTED_FILE_TYPE` in under 1 s, and the worker answers other calls meanwhile.",
  },
  {
    id: "skills.companion-path-refused",
    says: "A companion path that is empty, absolute, or has an empty, `.` or `..` segment, a backslash or NUL is `PATH_INVALID` and no call reaches the node; `link/../file` is refused as text, before anything is resolved.",
  },
] as const;
