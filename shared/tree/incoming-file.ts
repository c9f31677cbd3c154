import { isFault } from "../fault/fault.ts";
import type { FileTrailer } from "../gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { CommitOptions, OpenFile, RootHandle, StagedFile, StageOptions } from "../root/root-handle.ts";
import { differs, requireDigest } from "./tree-rules.ts";

/** A large file of a tree while its chunks arrive. Disposing leaves nothing of it but what was finished. */
export interface IncomingFile extends AsyncDisposable {
  /** The next bytes. `ALREADY_EXISTS` when another file stands there, and as `StagedFile.write`. */
  take(chunk: Uint8Array): Promise<void>;
  /** Publishes it, as `StagedFile.commit`; `unchanged` when it stands there as it is to be. */
  finish(
    trailer: FileTrailer,
    options: Pick<CommitOptions, "check" | "signal">,
  ): Promise<"stored" | "unchanged">;
}

/** What `openIncoming` takes. */
export interface IncomingOptions extends Omit<StageOptions, "precondition" | "createParents"> {
  readonly precondition: { readonly kind: "any" | "absent" };
  /** A file that stands there with the very content is as good as stored. */
  readonly keepsEqual: boolean;
  /** As announced. */
  readonly sizeBytes: bigint;
}

/** Opens a stage for a file, or the file that stands there already where it may be kept. */
export async function openIncoming(
  root: RootHandle,
  path: WorkspacePath,
  { keepsEqual, sizeBytes, ...options }: IncomingOptions,
): Promise<IncomingFile> {
  const { precondition } = options;
  try {
    const announced = { ...options, announcedBytes: Number(sizeBytes), createParents: false };
    return toIncoming(await root.stageWrite(path, announced), precondition);
  } catch (error) {
    if (!keepsEqual || !isFault(error, "ALREADY_EXISTS")) throw error;
  }
  const standing = await tryOpen(root, path);
  if (!standing) throw differs(path);
  if (BigInt(standing.entry.sizeBytes) === sizeBytes) return new StandingFile(path, standing);
  standing.close();
  throw differs(path);
}

/** Whether a small file holds exactly `content`; what cannot be read does not. */
export function isStandingEqual(root: RootHandle, path: WorkspacePath, content: Uint8Array): boolean {
  try {
    return root.readSmall(path, { maxBytes: content.byteLength }).content.equals(content);
  } catch (error) {
    if (isFault(error)) return false;
    throw error;
  }
}

function toIncoming(stage: StagedFile, precondition: IncomingOptions["precondition"]): IncomingFile {
  return {
    take: (chunk) => stage.write(chunk),
    finish: async (trailer, options) => {
      const expected = { sizeBytes: Number(trailer.sizeBytes), digest: requireDigest(trailer.digest) };
      await stage.commit({ precondition, expected, ...options });
      return "stored";
    },
    [Symbol.asyncDispose]: () => stage.discard(),
  };
}

async function tryOpen(root: RootHandle, path: WorkspacePath): Promise<OpenFile | undefined> {
  try {
    return await root.openFile(path);
  } catch (error) {
    if (isFault(error)) return undefined;
    throw error;
  }
}

/** A file that stands there, compared with the bytes that come. */
class StandingFile implements IncomingFile {
  readonly #path: WorkspacePath;
  readonly #file: OpenFile;
  #buffer: Buffer = Buffer.alloc(0);
  #comparedBytes = 0;

  constructor(path: WorkspacePath, file: OpenFile) {
    this.#path = path;
    this.#file = file;
  }

  async take(chunk: Uint8Array): Promise<void> {
    if (this.#buffer.length < chunk.byteLength) this.#buffer = Buffer.allocUnsafe(chunk.byteLength);
    const own = this.#buffer.subarray(0, chunk.byteLength);
    const count = await this.#file.read(own, this.#comparedBytes);
    if (count < chunk.byteLength || !own.equals(chunk)) throw differs(this.#path);
    this.#comparedBytes += count;
  }

  async finish(): Promise<"unchanged"> {
    if (this.#comparedBytes === this.#file.entry.sizeBytes && !this.#file.hasChanged()) return "unchanged";
    throw differs(this.#path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#file.close();
  }
}
