import { createDigester, type Digest } from "../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import { EntryKind, type Entry, type Source } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { joinPath, parentPath, parseWorkspacePath, rootPath } from "../../../shared/names/workspace-path.ts";
import type { Precondition } from "../../../shared/root/root-handle.ts";
import { freeReceived } from "../../../shared/rpc/chunk-memory.ts";
import { confirm } from "../../../shared/terminal/ask.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import type { StoreTreeOptions } from "../../../shared/tree/store-tree-options.ts";
import { storeTree } from "../../../shared/tree/store-tree.ts";
import { chunkBytes, type TreePart } from "../../../shared/tree/tree-part.ts";
import { parseCondition, requireTreeCondition, type Condition } from "./condition.ts";
import { fetchFile } from "./fetch-file.ts";
import { getArchive } from "./get-archive.ts";
import {
  openFileTarget,
  openTreeTarget,
  requireFolder,
  type LocalPlace,
  type LocalTarget,
} from "./local-place.ts";
import { lookUnasked } from "./look-unasked.ts";
import { partKeyOf } from "./part-key.ts";
import { openParts } from "./read-parts.ts";
import { parseRemote, type Remote } from "./remote.ts";
import { fetchRest } from "./resume-tree.ts";
import { nameApart } from "./source-names.ts";
import { runTransfer, runTransfers, type Transfer, type TransferCounts } from "./transfer.ts";

/** `files get`. */
export const getCommand: CommandModule = {
  words: "files get",
  summary: "fetch a file or a tree, or several of them into one folder",
  example: "fairlead files get devbox:/app/dist ./dist",
  args: [
    { name: "<path>", text: "NODE:/WORKSPACE/PATH" },
    {
      name: "[local...]",
      text: "more of them, and at last where to put it (default: here, under its own name); of a folder, a name in .tar, .tar.gz or .tgz is an archive",
    },
  ],
  options: [
    {
      flags: "--if-match <digest>",
      text: "what must stand here: a digest, absent, or any (default: a file that you name is replaced, in a folder none that differs)",
    },
    { flags: "--strict", text: "the first bad entry of a tree ends it, and nothing is kept" },
  ],
  callsNode: true,
  run: async (input, runtime) => {
    const { remotes, local } = parsePlaces([input.argument("path"), ...input.rest("local")]);
    const condition = parseCondition(input.text("if-match"));
    const strict = input.flag("strict");
    const get = (remote: Remote) => (transfer: Transfer) =>
      getOne({ runtime, transfer, remote, local, condition, strict });
    const [only] = remotes;
    if (remotes.length === 1 && only) return await runTransfer(runtime, only.name, get(only));
    if (condition.kind === "match") {
      throw new Fault("INVALID_ARGUMENT", "one digest cannot hold for several files", {
        details: { field: "if-match" },
      });
    }
    const works = nameApart(remotes).map((remote) => ({
      from: remote.shown,
      label: remote.name,
      work: get(remote),
    }));
    await requireFolder(local);
    return await runTransfers(runtime, works);
  },
};

/** Any number of remote paths, and at last a place here; several go into that folder. */
function parsePlaces(words: readonly string[]): {
  readonly remotes: readonly Remote[];
  readonly local: string;
} {
  const last = words.length > 1 ? (words.at(-1) ?? "") : "";
  const isPlace = last !== "" && !/^[^/\\]+:\//.test(last);
  const remotes = (isPlace ? words.slice(0, -1) : words).map((word) => parseRemote(word));
  const local = isPlace ? last : ".";
  return { remotes, local: remotes.length > 1 && !local.endsWith("/") ? `${local}/` : local };
}

async function getOne(asked: Omit<GetJob, "entry">): Promise<GetResult> {
  const { transfer, remote } = asked;
  const job: GetJob = { ...asked, entry: await lookUnasked(transfer, remote) };
  if (!job.entry) return await getUnseen(job);
  if (job.entry.kind === EntryKind.FOLDER) return await getTree(job);
  transfer.onTotal(Number(job.entry.sizeBytes));
  return await getFile(job);
}

interface GetJob {
  readonly runtime: Runtime;
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly local: string;
  readonly condition: Condition;
  /** What stands at the remote path, where nobody had to be asked about that. */
  readonly entry: Entry | undefined;
  readonly strict: boolean;
}

type GetResult = TransferCounts & { readonly from: string; readonly to: string };

/** What only a person may let be looked at: a folder says so before anybody is asked for it as a file. */
async function getUnseen(job: GetJob): Promise<GetResult> {
  try {
    return await getFile(job);
  } catch (error) {
    if (!isFault(error, "NOT_A_FILE")) throw error;
    return await getTree(job);
  }
}

/** One file: staged beside its target, verified, renamed. */
async function getFile(job: GetJob): Promise<GetResult> {
  const { transfer, remote, local } = job;
  const { workspace, path } = remote;
  await using place = await openFileTarget(local, remote.name);
  const decided = await decideTarget(job, place);
  if (decided.kind === "unchanged") return { ...decided.result, from: remote.shown, to: place.shown };
  const { precondition } = decided;
  const partKey = partKeyOf(remote.shown, place.path);
  const { receipt, source } = await transfer.goOn(workspace, () =>
    fetchFile(transfer, {
      workspace,
      path,
      place,
      sizeBytes: job.entry && Number(job.entry.sizeBytes),
      precondition,
      partKey,
    }),
  );
  await place.root.swept;
  return {
    ...fileCounts(receipt.sizeBytes, receipt.digest),
    bytesReused: Math.max(0, receipt.sizeBytes - transfer.movedBytes),
    from: remote.shown,
    to: place.shown,
    source,
  };
}

function fileCounts(bytes: number, digest: Digest): TransferCounts & { readonly failed: [] } {
  return { files: 1, folders: 0, links: 0, bytes, failed: [], failedCount: 0, digest };
}

type Decided =
  | { readonly kind: "write"; readonly precondition: Precondition }
  | { readonly kind: "unchanged"; readonly result: TransferCounts };

/**
 * What may be done to what stands at the target, before anything is fetched. A name that the user wrote is theirs to
 * replace; one that was taken from the source may be another source's file: it is kept unless it is the same.
 */
async function decideTarget(job: GetJob, place: LocalTarget): Promise<Decided> {
  const { condition } = job;
  if (condition.kind === "any" || (condition.kind === "default" && place.isNamed)) {
    return { kind: "write", precondition: { kind: "any" } };
  }
  const standing = await findFile(place, job.transfer.signal);
  if (condition.kind === "match") {
    if (standing?.digest === condition.digest) return { kind: "write", precondition: condition };
    throw new Fault("CONFLICT", `${place.shown} ${standing ? "has another digest" : "does not exist"}`, {
      details: { expected: condition.digest, actual: standing?.digest ?? "absent" },
      hint: "repeat with its digest as --if-match, or with --if-match any to replace whatever it is",
    });
  }
  if (!standing) return { kind: "write", precondition: { kind: "absent" } };
  if (condition.kind === "absent") throw taken(place);
  if (!job.entry || standing.sizeBytes === Number(job.entry.sizeBytes)) {
    const source = await findEqual(job, standing.digest);
    const result = {
      ...fileCounts(standing.sizeBytes, standing.digest),
      unchanged: 1,
      filesReused: 1,
      bytesReused: standing.sizeBytes,
      source,
    };
    if (source) return { kind: "unchanged", result };
  }
  const fault = taken(place);
  if (!(await confirm(job.runtime, `${fault.message}; replace it?`))) throw fault;
  return { kind: "write", precondition: { kind: "match", digest: standing.digest } };
}

async function findFile(
  place: LocalTarget,
  signal: AbortSignal,
): Promise<{ readonly sizeBytes: number; readonly digest: Digest } | undefined> {
  try {
    await using file = await place.root.openFile(place.path);
    const digester = createDigester();
    const buffer = Buffer.allocUnsafe(chunkBytes);
    for (;;) {
      signal.throwIfAborted();
      const count = await file.read(buffer, digester.sizeBytes);
      if (count === 0) return { sizeBytes: digester.sizeBytes, digest: digester.digest() };
      digester.update(buffer.subarray(0, count));
    }
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

/** Where the remote file comes from when it has this digest: the node compares, and nothing travels. */
async function findEqual({ transfer, remote }: GetJob, ifMatch: Digest): Promise<Source | undefined> {
  const { workspace, path } = remote;
  try {
    await using parts = openParts(transfer.files.read({ workspace, path, ifMatch }, transfer.call));
    return (await parts.header()).source;
  } catch (error) {
    if (isFault(error, "CONFLICT")) return undefined;
    throw error;
  }
}

function taken(place: LocalTarget): Fault {
  return new Fault("ALREADY_EXISTS", `${place.shown} exists already, with other content`, {
    details: { path: place.shown },
    hint: "name another file, or repeat with --if-match any to replace it",
  });
}

/** A tree: into a folder that is there already entry by entry, else beside its name, which it gets once it is whole. */
async function getTree(job: GetJob): Promise<GetResult> {
  const wanted = requireTreeCondition(job.condition);
  await using place = await openTreeTarget(job.local, job.remote.name);
  const packing = place.path === "" ? undefined : archiveOf(place);
  if (packing) return await getTar(job, place, packing);
  const byDefault = place.isNamed ? "any" : "absent_or_equal";
  const tree: GetTreeJob = { ...job, precondition: wanted === "default" ? byDefault : wanted };
  return {
    from: job.remote.shown,
    to: place.shown,
    ...(place.path === "" ? await fillTree(tree, place, false) : await fillNewTree(tree, place)),
  };
}

/** What archive a name says; one that no archive of ours can have is `INVALID_ARGUMENT`, and never becomes a folder. */
function archiveOf({ path, shown, isNamed }: LocalTarget): "tar" | "tar.gz" | undefined {
  if (/\.tar$/i.test(path)) return "tar";
  if (/\.(?:tar\.gz|tgz)$/i.test(path)) return "tar.gz";
  if (!isNamed || !/\.(?:zip|7z|rar|t(?:ar\.)?(?:bz2|xz|zst|lz|lz4))$/i.test(path)) return undefined;
  throw new Fault("INVALID_ARGUMENT", `${shown} has the name of an archive that cannot be made`, {
    details: { field: "local" },
    hint: "end the name in .tar, .tar.gz or .tgz for an archive, or in a slash for a folder that the tree is put into",
  });
}

async function getTar(job: GetJob, place: LocalTarget, packing: "tar" | "tar.gz"): Promise<GetResult> {
  const wanted = requireTreeCondition(job.condition);
  const replaces = wanted === "any" || (wanted === "default" && place.isNamed);
  const precondition: Precondition = { kind: replaces ? "any" : "absent" };
  const { transfer, remote, strict } = job;
  const counts = await getArchive({
    transfer,
    remote,
    place,
    precondition,
    strict,
    isPacked: packing === "tar.gz",
  });
  return { ...counts, from: remote.shown, to: place.shown };
}

interface GetTreeJob extends GetJob {
  readonly precondition: StoreTreeOptions["precondition"];
}

async function fillNewTree(job: GetTreeJob, place: LocalPlace): Promise<TransferCounts> {
  const { root, path } = place;
  const parent = parentPath(path) ?? rootPath;
  await requireFree(place);
  const aside = joinPath(parent, root.createAsideName());
  try {
    const filled = await fillTree(job, { ...place, path: aside }, true);
    await root.move(aside, path);
    await root.swept;
    return filled;
  } catch (error) {
    await removeAside(place, aside);
    throw error;
  }
}

/** A file where the folder is to stand is found before the tree travels, not after. */
async function requireFree({ root, path, shown }: LocalPlace): Promise<void> {
  try {
    await root.stat(path);
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return;
    throw error;
  }
  throw new Fault("ALREADY_EXISTS", `${shown} exists already and is no folder`, {
    details: { path: shown },
    hint: "name another folder for the tree",
  });
}

async function removeAside({ root }: LocalPlace, aside: string): Promise<void> {
  try {
    await root.remove(parseWorkspacePath(aside), { recursive: true });
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "NOT_FOUND") throw error;
  }
}

/** At first all of it is sent; after a cut only what is not here yet. */
async function fillTree(job: GetTreeJob, place: LocalPlace, isUnseen: boolean): Promise<TransferCounts> {
  const { transfer, remote } = job;
  let isCut = false;
  return await transfer.goOn(remote.workspace, async () => {
    if (isCut) return await fillRest(job, place, isUnseen);
    isCut = true;
    return await fillWhole(job, place, isUnseen);
  });
}

async function fillRest(job: GetTreeJob, place: LocalPlace, isUnseen: boolean): Promise<TransferCounts> {
  const { transfer, strict, precondition } = job;
  const overwrites = isUnseen || precondition === "any";
  const { counts, problems, source } = await fetchRest({
    ...job,
    place,
    strict,
    overwrites,
    isOwn: isUnseen,
  });
  return {
    ...counts,
    bytesReused: Math.max(0, counts.bytes - transfer.movedBytes),
    failed: problems,
    failedCount: problems.length,
    source,
  };
}

async function fillWhole(job: GetTreeJob, place: LocalPlace, isUnseen: boolean): Promise<TransferCounts> {
  const { transfer, remote, strict, entry, precondition } = job;
  const { workspace, path } = remote;
  const seen: { source: Source | undefined } = { source: undefined };
  const parts = noteSource(
    transfer.files.readTree({ workspace, path, strict, acceptsPacked: true }, transfer.call),
    seen,
  );
  const { stored, unchangedCount, problems, failedCount } = await storeTree(parts, {
    root: place.root,
    path: place.path,
    precondition,
    ...(entry ? { top: { mode: entry.mode, mtimeNs: entry.modifiedNs } } : {}),
    strict,
    isUnseen,
    signal: transfer.signal,
    onBytes: transfer.onBytes,
  });
  return {
    files: Number(stored.files),
    folders: Number(stored.folders),
    links: Number(stored.links),
    bytes: Number(stored.sizeBytes),
    unchanged: unchangedCount,
    failed: problems,
    failedCount,
    source: seen.source,
  };
}

/** Keeps the source of the first part; each part's memory is given back once it was stored. */
async function* noteSource<P extends TreePart & { readonly source?: Source | undefined }>(
  parts: AsyncIterable<P>,
  seen: { source: Source | undefined },
): AsyncGenerator<P, void> {
  for await (const part of parts) {
    seen.source ??= part.source;
    yield part;
    freeReceived(part.content);
  }
}
