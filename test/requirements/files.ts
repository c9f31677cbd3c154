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
] as const;
