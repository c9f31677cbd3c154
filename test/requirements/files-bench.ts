/** The promises of `files` that measurements prove, and those of the bootstrap view. */
export const filesBench = [
  {
    id: "files.bench-unchanged-sync",
    says: "A sync of an unchanged tree of 10,000 files takes at most a tenth of the first sync's time and sends less than 1 % of the tree's bytes.",
  },
  {
    id: "files.bench-delayed-upload",
    says: "An upload over a link with 50 ms round trip reaches at least 20 times the rate of the same upload with the library's default window.",
  },
  {
    id: "files.bench-body-once",
    says: "A write of 16 MiB with policy, preflight and approval puts at most 1.05 times its size on the wire.",
  },
  {
    id: "files.bench-small-files",
    says: "A tree of 5,000 files of 1 KiB over a link with 20 ms round trip takes at most a fifth of the time of 5,000 single reads.",
  },
  {
    id: "files.bench-fair-share",
    says: "Beside a transfer whose reader is paused ten others keep at least 75 % of their rate, and during a large transfer on the same link a stat answers in at most five times its idle time.",
  },
  {
    id: "files.bootstrap-names",
    says: "The bootstrap view reads the root files `AGENTS.md`, `SOUL.md`, `IDENTITY.md`, `USER.md`, `BOOTSTRAP.md`, `MEMORY.md` and pattern matches with one of these base names, and writes the first four in the root only. Every other read or write, also in a folder that it may list, gives `POLICY_DENIED`.",
  },
  {
    id: "files.bootstrap-patterns",
    says: "A configured pattern opens for listing only the folders of its own walk root and a pattern without wildcards opens none; `[` and `]` are ordinary characters, and a pattern with NUL or a walk root outside the workspace is dropped and reported.",
  },
  {
    id: "files.bootstrap-alias",
    says: "A bootstrap read through a parent that is a link inside the workspace succeeds and reports the canonical path; a linked leaf or the same path as an ordinary read gives `SYMLINK_REFUSED`, and a parent that leads outside gives `PATH_ESCAPES` even where policy allows the outside file.",
  },
  {
    id: "files.bench-constant-memory",
    says: "With a 128 MiB heap, nine concurrent transfers of 1 GiB finish beside a tenth whose reader is paused, and node and gateway each grow by less than 128 MiB of resident memory.",
  },
] as const;
