import { randomBytes } from "node:crypto";
import { parseDigest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import {
  EntryKind,
  type FileHeader,
  type FileTrailer,
  type Source,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { joinPath, parentPath, parseWorkspacePath, rootPath } from "../../../shared/names/workspace-path.ts";
import type { StagedFile } from "../../../shared/root/root-handle.ts";
import { freeReceived } from "../../../shared/rpc/chunk-memory.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import { storeTree, type StoredTree } from "../../../shared/tree/store-tree.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";
import { openFileTarget, openTreeTarget, type LocalPlace } from "./local-place.ts";
import { parseRemote, type Remote } from "./remote.ts";
import { runTransfer, type Transfer, type TransferCounts } from "./transfer.ts";

/** `files get`. */
export const getCommand: CommandModule = {
  words: "files get",
  summary: "fetch a file or a tree",
  example: "fairlead files get devbox:/app/dist ./dist",
  args: [
    { name: "<path>", text: "NODE:/WORKSPACE/PATH" },
    { name: "[local]", text: "where to put it (default: here, under its own name)" },
  ],
  options: [{ flags: "--strict", text: "the first bad entry of a tree ends it, and nothing is kept" }],
  callsNode: true,
  run: (input, runtime) => {
    const remote = parseRemote(input.argument("path"));
    const local = input.maybeArgument("local") ?? ".";
    return runTransfer(runtime, remote.name, async (transfer) => {
      const { entry } = await transfer.files.stat(
        { workspace: remote.workspace, path: remote.path },
        transfer.call,
      );
      const job: GetJob = { transfer, remote, local, strict: input.flag("strict") };
      if (entry?.kind === EntryKind.FOLDER) return await getTree(job);
      transfer.onTotal(Number(entry?.sizeBytes ?? 0));
      return await getFile(job);
    });
  },
};

interface GetJob {
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly local: string;
  readonly strict: boolean;
}

type GetResult = TransferCounts & { readonly from: string; readonly to: string };

/** One file: staged beside its target, verified, renamed. */
async function getFile({ transfer, remote, local }: GetJob): Promise<GetResult> {
  const { workspace, path } = remote;
  await using place = await openFileTarget(local, remote.name);
  await using parts = openParts(transfer.files.read({ workspace, path }, transfer.call));
  const header = await parts.header();
  const { entry } = header;
  const kept = entry ? { mode: entry.mode & 0o777, mtimeNs: entry.modifiedNs } : {};
  await using stage = await place.root.stageWrite(place.path, kept);
  const trailer = await parts.fill(stage, transfer.onBytes);
  const receipt = await stage.commit({
    precondition: { kind: "any" },
    expected: { sizeBytes: Number(trailer.sizeBytes), digest: parseDigest(trailer.digest) },
    signal: transfer.signal,
  });
  return {
    from: remote.shown,
    to: place.shown,
    files: 1,
    folders: 0,
    links: 0,
    bytes: receipt.sizeBytes,
    failed: [],
    failedCount: 0,
    digest: receipt.digest,
    source: header.source,
  };
}

interface Parts extends AsyncDisposable {
  header(): Promise<FileHeader>;
  /** Writes every chunk into the stage and gives the trailer. */
  fill(stage: StagedFile, onBytes: (bytes: number) => void): Promise<FileTrailer>;
}

type ReadMessage = { readonly part: ReadPart };
type ReadPart =
  | { readonly case: "header"; readonly value: FileHeader }
  | { readonly case: "trailer"; readonly value: FileTrailer }
  | { readonly case: "chunk"; readonly value: Uint8Array }
  | { readonly case: undefined; readonly value?: undefined };

function openParts(messages: AsyncIterable<ReadMessage>): Parts {
  const iterator = messages[Symbol.asyncIterator]();
  const next = async (): Promise<ReadPart> => {
    const result = await iterator.next();
    if (result.done === true) throw cutOff();
    return result.value.part;
  };
  return {
    header: async () => {
      const part = await next();
      if (part.case === "header") return part.value;
      throw new Fault("INTEGRITY_FAILURE", "the file came without its header");
    },
    fill: async (stage, onBytes) => {
      for (;;) {
        const part = await next();
        if (part.case === "trailer") return part.value;
        if (part.case !== "chunk") throw new Fault("INTEGRITY_FAILURE", "the file came in an unknown form");
        const { byteLength } = part.value;
        await stage.write(part.value);
        freeReceived(part.value);
        onBytes(byteLength);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await iterator.return?.();
    },
  };
}

function cutOff(): Fault {
  return new Fault("INTEGRITY_FAILURE", "the file was cut off before its end", {
    hint: "repeat the command",
  });
}

/** A tree: into a folder that is there already entry by entry, else beside its name, which it gets once it is whole. */
async function getTree(job: GetJob): Promise<GetResult> {
  await using place = await openTreeTarget(job.local, job.remote.name);
  const { stored, source } =
    place.path === "" ? await fillTree(job, place, false) : await fillNewTree(job, place);
  const { files, folders, links, sizeBytes } = stored.stored;
  return {
    from: job.remote.shown,
    to: place.shown,
    files: Number(files),
    folders: Number(folders),
    links: Number(links),
    bytes: Number(sizeBytes),
    failed: stored.problems,
    failedCount: stored.failedCount,
    source,
  };
}

interface FilledTree {
  readonly stored: StoredTree;
  readonly source: Source | undefined;
}

async function fillNewTree(job: GetJob, place: LocalPlace): Promise<FilledTree> {
  const { root, path } = place;
  const parent = parentPath(path) ?? rootPath;
  const aside = joinPath(parent, `.fairlead-${randomBytes(8).toString("hex")}.part`);
  try {
    const filled = await fillTree(job, { ...place, path: aside }, true);
    await root.move(aside, path);
    return filled;
  } catch (error) {
    await removeAside(place, aside);
    throw error;
  }
}

async function removeAside({ root }: LocalPlace, aside: string): Promise<void> {
  try {
    await root.remove(parseWorkspacePath(aside), { recursive: true });
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "NOT_FOUND") throw error;
  }
}

async function fillTree(job: GetJob, place: LocalPlace, isUnseen: boolean): Promise<FilledTree> {
  const { transfer, remote, strict } = job;
  const { workspace, path } = remote;
  const seen: { source: Source | undefined } = { source: undefined };
  const parts = noteSource(transfer.files.readTree({ workspace, path, strict }, transfer.call), seen);
  const stored = await storeTree(parts, {
    root: place.root,
    path: place.path,
    precondition: "any",
    strict,
    isUnseen,
    signal: transfer.signal,
    onBytes: transfer.onBytes,
  });
  return { stored, source: seen.source };
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
