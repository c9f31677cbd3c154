import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { type Entry, EntryKind } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { Memory, MemoryReadResponse } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { Client } from "../../shared/rpc/service.ts";

/** Longest memory file that is indexed, in bytes; the node lists longer ones as skipped. */
export const maxMemoryFileBytes: number = 1024 * 1024;

/** A memory file as its node lists it. */
export interface ListedFile {
  readonly digest: string;
  readonly sizeBytes: number;
  /** When it was last changed, in milliseconds since 1970. */
  readonly modifiedMs: number;
}

/** All memory files of a workspace at one moment. */
export interface MemoryListing {
  readonly files: ReadonlyMap<string, ListedFile>;
  /** Why a file that is there cannot be indexed. */
  readonly skipped: ReadonlyMap<string, Fault>;
}

/** What calls to the node take. */
export interface NodeCall {
  readonly client: Client<typeof Memory>;
  /** The export's name. */
  readonly workspace: string;
  readonly signal: AbortSignal;
}

/** Lists the memory files of a workspace. */
export async function listMemoryFiles(call: NodeCall): Promise<MemoryListing> {
  const files = new Map<string, ListedFile>();
  const skipped = new Map<string, Fault>();
  for await (const part of call.client.list({ workspace: call.workspace }, { signal: call.signal })) {
    for (const entry of part.files) files.set(entry.path, toListed(entry));
    for (const problem of part.skipped) {
      skipped.set(
        problem.path,
        problem.fault ? fromWireFault(problem.fault) : new Fault("INTERNAL", "the node gave no reason"),
      );
    }
  }
  return { files, skipped };
}

function toListed(entry: Entry): ListedFile {
  if (entry.kind !== EntryKind.FILE || entry.digest === "") {
    throw new Fault("INTEGRITY_FAILURE", `the node listed ${entry.path} without its digest`);
  }
  return {
    digest: entry.digest,
    sizeBytes: Number(entry.sizeBytes),
    modifiedMs: Number(entry.modifiedNs / 1_000_000n),
  };
}

/** The digest of each of these files as the node has it now; those that are gone or cannot be read are left out. */
export async function inspectMemoryFiles(
  call: NodeCall,
  paths: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { files } = await call.client.inspect(
    { workspace: call.workspace, paths: [...paths] },
    { signal: call.signal },
  );
  return new Map(
    paths.flatMap((path, at): [string, string][] => {
      const digest = files[at]?.file?.digest ?? "";
      return digest === "" ? [] : [[path, digest]];
    }),
  );
}

const attempts = 3;
const retryAfterMs = 150;

/**
 * The whole text of a memory file, or undefined when it is gone. A file that cannot be read this moment is tried again,
 * three times in all.
 */
export async function readMemoryFile(
  call: NodeCall,
  path: string,
  clock: Clock,
): Promise<MemoryReadResponse | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const answer = await call.client.read(
        { workspace: call.workspace, path, maxChars: maxMemoryFileBytes },
        { signal: call.signal },
      );
      if (answer.status === "not_found") return undefined;
      if (answer.truncated) throw tooLong(path);
      return answer;
    } catch (error) {
      call.signal.throwIfAborted();
      if (attempt === attempts || !mayPass(error)) throw faultFromError(error);
      await clock.sleep(retryAfterMs * attempt, { signal: call.signal });
    }
  }
}

/** Whether a file that could not be read may be readable a moment later, as it stands. */
export function mayPass(error: unknown): boolean {
  return isFault(error) && (error.retryable || error.code === "IO_ERROR");
}

function tooLong(path: string): Fault {
  return new Fault("TOO_LARGE", `${path} has more than ${maxMemoryFileBytes} characters`, {
    details: { path, limit: maxMemoryFileBytes },
  });
}
