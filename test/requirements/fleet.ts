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
] as const;
