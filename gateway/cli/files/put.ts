import { isDigest } from "../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import { EntryKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { confirm } from "../../../shared/terminal/ask.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import { bootstrapOption } from "./bootstrap-option.ts";
import { parseCondition } from "./condition.ts";
import { localName, openSource } from "./local-place.ts";
import { lookUnasked } from "./look-unasked.ts";
import { hereOf, partKeyOf } from "./part-key.ts";
import { putTree, type PutJob, type PutResult } from "./put-tree.ts";
import { parseRemote, remoteChild, type Remote } from "./remote.ts";
import { storeFile } from "./store-file.ts";
import { runTransfer } from "./transfer.ts";

/** `files put`. */
export const putCommand: CommandModule = {
  words: "files put",
  summary: "store a file or a tree on a node",
  example: "fairlead files put ./notes.md devbox:/app/notes.md --if-match absent",
  args: [
    { name: "<local>", text: "the file or folder" },
    { name: "<path>", text: "NODE:/WORKSPACE/PATH" },
  ],
  options: [
    {
      flags: "--if-match <digest>",
      text: "what must stand there: a digest, absent, or any (default: what you last read)",
    },
    { flags: "--strict", text: "the first bad entry of a tree ends it" },
    {
      ...bootstrapOption,
      text: "only what an agent may write of its own: AGENTS.md, SOUL.md, IDENTITY.md, USER.md",
    },
    { flags: "--jobs <n>", text: "files of a tree in work at once (1 to 64, default 1)" },
  ],
  callsNode: true,
  run: (input, runtime) => {
    const remote = parseRemote(input.argument("path"));
    const local = input.argument("local");
    const condition = parseCondition(input.text("if-match"));
    const jobs = input.integer("jobs", { min: 1, max: 64 }) ?? 1;
    const strict = input.flag("strict");
    const bootstrap = input.flag("bootstrap");
    return runTransfer(runtime, localName(local), async (transfer) => {
      await using source = await openSource(local);
      if (bootstrap && source.kind === "folder") throw folderNotBootstrap(local);
      const job: PutJob = { runtime, transfer, source, remote, condition, strict, jobs, bootstrap };
      return source.kind === "folder" ? await putTree(job) : await putFile(job);
    });
  },
};

async function putFile(job: PutJob): Promise<PutResult> {
  const { remote, otherwise } = await chooseTarget(job);
  try {
    return await sendOrReplace({ ...job, remote });
  } catch (error) {
    if (!otherwise || !isFault(error, "NOT_A_FILE")) throw error;
    return await sendOrReplace({ ...job, remote: otherwise });
  }
}

async function sendOrReplace(named: PutJob): Promise<PutResult> {
  try {
    return await sendFile(named);
  } catch (error) {
    // What changed since it was read is refused; only what was never read is a person's to decide.
    if (!isFault(error, "CONFLICT") || error.details["reason"] !== "never_read") throw error;
    if (!(await confirm(named.runtime, `${error.message}; replace it?`))) throw error;
    return await sendFile({ ...named, condition: { kind: "any" } });
  }
}

interface ChosenTarget {
  readonly remote: Remote;
  /** Where it goes should a folder stand there, which only the write will say. */
  readonly otherwise?: Remote;
}

/** A folder on the node takes the file under its own name. */
async function chooseTarget({ transfer, source, remote }: PutJob): Promise<ChosenTarget> {
  const inside = remoteChild(remote, localName(source.shown));
  if (remote.isFolder || remote.path === "") return { remote: inside };
  try {
    const entry = await lookUnasked(transfer, remote);
    if (!entry) return { remote, otherwise: inside };
    return { remote: entry.kind === EntryKind.FOLDER ? inside : remote };
  } catch (error) {
    // Not there, or not to be looked at: the write says what it makes of it.
    if (isFault(error, "NOT_FOUND") || isFault(error, "POLICY_DENIED")) return { remote };
    throw error;
  }
}

async function sendFile(job: PutJob): Promise<PutResult> {
  const { transfer, source, remote, condition, bootstrap } = job;
  await using file = await source.root.openFile(source.path);
  const { sizeBytes } = file.entry;
  transfer.onTotal(sizeBytes);
  const { workspace, path } = remote;
  const partKey = partKeyOf(hereOf(source.shown), remote.shown);
  const answer = await storeFile(transfer, { workspace, path, file, condition, partKey, bootstrap });
  const digest = answer.entry?.digest ?? "";
  return {
    from: source.shown,
    to: remote.shown,
    files: 1,
    folders: 0,
    links: 0,
    bytes: sizeBytes,
    bytesReused: Math.max(0, sizeBytes - transfer.movedBytes),
    failed: [],
    failedCount: 0,
    ...(isDigest(digest) ? { digest } : {}),
    source: answer.source,
  };
}

function folderNotBootstrap(local: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${local} is a folder; a bootstrap write is of one document`, {
    details: { field: "bootstrap" },
    hint: "put the document alone, or leave --bootstrap away",
  });
}
