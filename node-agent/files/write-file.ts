import type { MessageInitShape } from "@bufbuild/protobuf";
import { toByteCount } from "../../shared/content/byte-count.ts";
import { type Digest, digestOf, digestToBytes, isDigest, parseDigest } from "../../shared/content/digest.ts";
import { unpack } from "../../shared/content/pack.ts";
import { Fault } from "../../shared/fault/fault.ts";
import {
  type FileCopy,
  type FileTrailer,
  type FilesWriteRequest,
  type FilesWriteResponseSchema,
  type WriteHeader,
  WritePrecondition,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { StagePart } from "../../shared/root/part.ts";
import type { OpenFile, Precondition, StagedFile } from "../../shared/root/root-handle.ts";
import { freeReceived } from "../../shared/rpc/chunk-memory.ts";
import { DeltaBase, fromWireCopy } from "../../shared/tree/delta.ts";
import { requirePossible } from "../../shared/tree/tree-rules.ts";
import type { GuardedRoot } from "../workspace/guarded-root.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toPins, toWireEntry, toWireSource } from "./wire.ts";

type Response = MessageInitShape<typeof FilesWriteResponseSchema>;

/** The messages of one write, its header taken off. */
export interface WriteStream {
  readonly header: WriteHeader;
  readonly rest: AsyncIterator<FilesWriteRequest>;
}

/** Takes the header, which must be the first message. */
export async function takeHeader(requests: AsyncIterable<FilesWriteRequest>): Promise<WriteStream> {
  const rest = requests[Symbol.asyncIterator]();
  const first = await rest.next();
  const part = first.done === true ? undefined : first.value.part;
  if (part?.case === "header") return { header: part.value, rest };
  await rest.return?.();
  throw new Fault("INVALID_ARGUMENT", "a write begins with its header", { details: { field: "header" } });
}

/** `Files.Write`: staged as it arrives, compared and published once all of it is here. */
export async function writeFile(
  workspace: Workspace,
  stream: WriteStream,
  signal: AbortSignal,
): Promise<Response> {
  const { header, rest } = stream;
  try {
    const path = parseRequestPath(header.path);
    const precondition = toPrecondition(header.precondition, header.ifMatch, header.orAbsent);
    requirePossible({ path, sizeBytes: header.sizeBytes });
    const announcedBytes = Number(header.sizeBytes);
    const part = toStagePart(header);
    const root = workspace.root.pinned(toPins([path, header.pin]));
    await using replaced = openReplaced(root, path);
    await using staged = await root.stageWrite(path, {
      precondition,
      announcedBytes,
      ...(part ? { part } : {}),
      createParents: !header.refuseMissingParents,
      ...(header.mode === 0 ? {} : { mode: header.mode }),
      ...(header.modifiedNs === 0n ? {} : { mtimeNs: header.modifiedNs }),
    });
    requireResumed(staged, part, path);
    const trailer = await receive({ staged, rest, path, announcedBytes, replaced, signal });
    replaced.requireUnchanged();
    const expected = { sizeBytes: announcedBytes, digest: requireDigest(trailer, announcedBytes, path) };
    const receipt = await staged.commit({ precondition, expected, signal });
    const { canonicalPath, publication, replacedDigest } = receipt;
    return {
      entry: toWireEntry(receipt.entry, receipt.digest),
      source: toWireSource({ workspace: workspace.settings.name, requestedPath: path, canonicalPath }),
      publication,
      replacedDigest: replacedDigest ?? "",
    };
  } finally {
    await rest.return?.();
  }
}

/** What the wire says of the condition. */
export function toPrecondition(word: WritePrecondition, ifMatch: string, orAbsent = false): Precondition {
  switch (word) {
    case WritePrecondition.ABSENT:
      return { kind: "absent" };
    case WritePrecondition.ANY:
      return { kind: "any" };
    case WritePrecondition.MATCH:
      return { kind: "match", digest: parseDigest(ifMatch, "ifMatch"), orAbsent };
    case WritePrecondition.UNSPECIFIED:
    default:
      throw new Fault("INVALID_ARGUMENT", "a write says what must hold for it", {
        details: { field: "precondition" },
      });
  }
}

const maxPartKeyLength = 200;

/** The key of a part: what the caller calls it, for this file. */
export function toPartKey(path: WorkspacePath, partKey: string): string {
  if (partKey !== "" && partKey.length <= maxPartKeyLength) {
    return digestToBytes(digestOf(`${partKey}\0${path}`))
      .toString("hex")
      .slice(0, 32);
  }
  throw new Fault("INVALID_ARGUMENT", `a part has a key of 1 to ${maxPartKeyLength} characters`, {
    details: { field: "partKey" },
  });
}

function toStagePart(header: WriteHeader): StagePart | undefined {
  if (header.partKey === "") return undefined;
  const key = toPartKey(parseRequestPath(header.path), header.partKey);
  if (header.resumeBytes === 0n) return { key };
  const sizeBytes = toByteCount(header.resumeBytes, "resumeBytes");
  return { key, resume: { sizeBytes, digest: parseDigest(header.resumeDigest, "resumeDigest") } };
}

/** The caller sends only what follows: a part that is gone, or is another one by now, cannot be gone on with. */
function requireResumed(staged: StagedFile, part: StagePart | undefined, path: string): void {
  if (staged.sizeBytes === (part?.resume?.sizeBytes ?? 0)) return;
  throw new Fault("CONFLICT", `what was kept of ${path} is not there any more`, {
    details: { path, reason: "part_changed", publication: "unattempted" },
    hint: "send all of it",
  });
}

interface Receiving {
  readonly staged: StagedFile;
  readonly rest: AsyncIterator<FilesWriteRequest>;
  readonly path: string;
  readonly announcedBytes: number;
  readonly replaced: Replaced;
  readonly signal: AbortSignal;
}

/** The file that is replaced, for what is copied from it. Disposing closes it. */
interface Replaced extends AsyncDisposable {
  /** Puts some of its bytes behind what the stage has: what is copied is read, and judged as that. */
  copyTo(staged: StagedFile, copy: FileCopy, signal: AbortSignal): Promise<void>;
  /** `CONFLICT` when something was copied and it was changed meanwhile. */
  requireUnchanged(): void;
}

/** Opens it at the first copy. */
function openReplaced(root: GuardedRoot, path: WorkspacePath): Replaced {
  let file: OpenFile | undefined;
  let base: DeltaBase | undefined;
  return {
    copyTo: async (staged, copy, signal) => {
      const opened = (file ??= await root.openFile(path));
      base ??= new DeltaBase(opened);
      await base.copyTo(staged, fromWireCopy(copy), () => {
        // As while it waits: cut off here, it may go on later.
        staged.keep(true);
        signal.throwIfAborted();
        staged.keep(false);
        root.recheck("read", opened.canonicalPath);
      });
    },
    requireUnchanged: () => base?.requireUnchanged(),
    [Symbol.asyncDispose]: async () => file?.close(),
  };
}

async function receive(receiving: Receiving): Promise<FileTrailer> {
  const { staged, rest, path, announcedBytes, replaced, signal } = receiving;
  for (;;) {
    // Cut off while it waits, it may go on later from what is here; at any other end nothing is left of it.
    staged.keep(true);
    const next = await rest.next();
    signal.throwIfAborted();
    staged.keep(false);
    if (next.done === true)
      throw damaged(`${path} was cut off before its end`, announcedBytes, staged.sizeBytes);
    const { part } = next.value;
    if (part.case === "trailer") return part.value;
    if (part.case !== "chunk" && part.case !== "copy" && part.case !== "packed") {
      throw new Fault("INVALID_ARGUMENT", "after its header a write has chunks and a trailer", {
        details: { field: "part" },
      });
    }
    const moreBytes = part.case === "chunk" ? part.value.byteLength : Number(part.value.sizeBytes);
    const sizeBytes = staged.sizeBytes + moreBytes;
    if (sizeBytes > announcedBytes)
      throw damaged(`${path} is longer than it was announced`, announcedBytes, sizeBytes);
    if (part.case === "copy") {
      await replaced.copyTo(staged, part.value, signal);
      continue;
    }
    if (part.case === "packed") {
      await staged.write(await unpack(part.value.content, part.value.sizeBytes));
      continue;
    }
    await staged.write(part.value);
    freeReceived(part.value);
  }
}

function requireDigest(trailer: FileTrailer, announcedBytes: number, path: string): Digest {
  if (trailer.sizeBytes !== BigInt(announcedBytes)) {
    throw damaged(`${path} has another size than was announced`, announcedBytes, Number(trailer.sizeBytes));
  }
  if (isDigest(trailer.digest)) return trailer.digest;
  throw new Fault("INVALID_ARGUMENT", "a write ends with the digest of what was sent", {
    details: { field: "digest" },
  });
}

function damaged(what: string, expected: number, actual: number): Fault {
  return new Fault("INTEGRITY_FAILURE", what, { details: { expected, actual, publication: "unattempted" } });
}
