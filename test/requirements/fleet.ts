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
] as const;
