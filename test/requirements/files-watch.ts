/** The promises of `files` about watching; see `files.ts`. */
export const filesWatch = [
  {
    id: "files.watch-events",
    says: "`fairlead files watch NODE:PATH --json` prints one object a line with `cursor`, `path` and `kind` for each file created, changed, removed and moved, and within one epoch the cursors strictly rise.",
  },
  {
    id: "files.watch-since-cursor",
    says: "A subscriber that returns with its cursor after 100 changes gets each of them once and in order, also when the link was cut meanwhile; a cursor that is too old or of another epoch gets `gap` and a manifest to compare, never silence.",
  },
  {
    id: "files.watch-barrier",
    says: "A barrier asked for after another process has written a file is answered only after the `changed` event of that write was delivered, in 200 of 200 rounds; while the workspace is unavailable it returns at once with the reason.",
  },
  {
    id: "files.watch-permission-change",
    says: "A change of policy that opens or closes paths for a subscriber is an event on the same cursor as changes of content, with kind `permitted` or `withdrawn`, in the order in which it took effect.",
  },
  {
    id: "files.watch-settles-to-disk",
    says: "After 200 rounds of a six-folder `mkdir -p` with a file inside, and after a folder and the root itself were deleted and made again with gaps of 0, 1, 50 and 500 ms, applying the events to the first manifest gives the disk's state.",
  },
  {
    id: "files.watch-atomic-save",
    says: "During 1,000 replacements by rename of three watched files no removal is reported, a stat in a loop never gives `NOT_FOUND`, and the last event of each carries the digest of its last content, also when the file could not be opened for the first 100 ms after its event.",
  },
  {
    id: "files.watch-links",
    says: "Dangling, looping and forbidden links do not keep `available` from coming and are listed as problems; a followed link retargeted by rename gives events for its new content, and content behind a target now forbidden is reported removed. An edit in a workspace whose root was registered through a link is reported once, under the registered name.",
  },
  {
    id: "files.watch-slow-subscriber",
    says: "A subscriber that stops reading during 100,000 changes costs the node and the gateway less than 16 MiB, gets `gap` when it reads again, and delays no other subscriber.",
  },
  {
    id: "files.watch-budget",
    says: "With a virtual environment of 80,000 files in the workspace, 1,024 descriptors and 2,000 kernel watches, the node still starts a command, uses fewer than 50 descriptors more than without the watch, and writes at most one log line a minute about it.",
  },
  {
    id: "files.watch-dead-watcher",
    says: "When the kernel watch ends without an error, `unavailable` with a reason is sent within one scan interval, later changes arrive by scan, and `available` follows a verified rescan; retries never stop.",
  },
  {
    id: "files.watch-ready-means-covered",
    says: "`available` is sent only once every folder was verified as covered; with room for 64 kernel watches and 200 folders the node instead reports how many are covered, and a change in each of the 200 still arrives by timed scan.",
  },
  {
    id: "files.watch-limit-shown",
    says: "When the kernel's watch limit is at 80 % or reached, `fairlead workspaces ls` and `nodes show` on the gateway name the limit and the setting to raise; after it was raised coverage becomes full without a restart and `available` follows.",
  },
  {
    id: "files.watch-unsubscribe",
    says: "Leaving a watch, also by ending the client process, ends the work for it on the node within 1 s with no handle left and no unhandled error; 1,000 subscriptions opened and left return the node to its base count of handles.",
  },
  {
    id: "files.watch-overflow",
    says: "40,000 files made at once while the node's watcher is frozen for 2 s lead to a `gap`, and the manifest taken after it equals the disk.",
  },
] as const;
