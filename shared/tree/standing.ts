import { createDigester, digestOf, isDigest, parseDigest, type Digest } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import type { Entry, TreeEntry } from "../gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import { alreadyExists } from "../root/refusals.ts";
import type { CommitOptions, RootHandle, StageOptions } from "../root/root-handle.ts";
import { chunkBytes, maxInlineBytes } from "./tree-part.ts";

/**
 * Fails with `CONFLICT` unless a file of the digest stands at the path, or with `ALREADY_EXISTS` where `absent` was asked
 * for and something does. Nothing is asked of an empty condition.
 */
export async function requireStanding(
  root: RootHandle,
  path: WorkspacePath,
  { ifMatch }: Pick<TreeEntry, "ifMatch">,
): Promise<void> {
  if (ifMatch === "") return;
  const actual = await findDigest(root, path);
  if (ifMatch === "absent") {
    if (actual !== undefined) throw alreadyExists(path);
    return;
  }
  const expected = parseDigest(ifMatch, "ifMatch");
  if (actual === expected) return;
  throw new Fault("CONFLICT", `${path} was changed meanwhile`, {
    details: { path, expected, actual: actual ?? "absent" },
    hint: "repeat the command",
  });
}

async function findDigest(root: RootHandle, path: WorkspacePath): Promise<Digest | undefined> {
  try {
    await using file = await root.openFile(path);
    const digester = createDigester();
    const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, file.entry.sizeBytes + 1));
    for (;;) {
      const count = await file.read(buffer, digester.sizeBytes);
      if (count === 0) return digester.digest();
      digester.update(buffer.subarray(0, count));
    }
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

/** Fails with `INTEGRITY_FAILURE` unless a small file's content is what its entry says. */
export function requireAnnounced(entry: Entry, content: Uint8Array): void {
  if (entry.sizeBytes !== BigInt(content.byteLength)) {
    throw new Fault("INTEGRITY_FAILURE", `${entry.path} comes with another size than its own`);
  }
  const actual = digestOf(content);
  if (actual === entry.digest) return;
  throw new Fault("INTEGRITY_FAILURE", `what arrived for ${entry.path} is not what was announced`, {
    details: { path: entry.path, expected: entry.digest, actual },
  });
}

/** The content of a small file that is copied. */
export function readCopied(root: RootHandle, from: WorkspacePath): Uint8Array {
  return root.readSmall(from, { maxBytes: maxInlineBytes }).content;
}

/** How a large file is copied. */
export interface CopyOptions extends StageOptions, Pick<CommitOptions, "signal"> {
  readonly precondition: { readonly kind: "any" | "absent" };
}

/** Copies a large file inside a root; `INTEGRITY_FAILURE` unless it is what the entry says. */
export async function copyLarge(
  root: RootHandle,
  { from, to, entry }: { readonly from: WorkspacePath; readonly to: WorkspacePath; readonly entry: Entry },
  { signal, ...options }: CopyOptions,
): Promise<void> {
  if (!isDigest(entry.digest)) throw new Fault("INTEGRITY_FAILURE", "a copy comes without its digest");
  await using file = await root.openFile(from);
  await using stage = await root.stageWrite(to, { ...options, createParents: false });
  const buffer = Buffer.allocUnsafe(chunkBytes);
  for (;;) {
    signal?.throwIfAborted();
    const count = await file.read(buffer, stage.sizeBytes);
    if (count === 0) break;
    await stage.write(buffer.subarray(0, count));
  }
  await stage.commit({
    precondition: options.precondition,
    expected: { sizeBytes: Number(entry.sizeBytes), digest: entry.digest },
    ...(options.check ? { check: options.check } : {}),
    ...(signal ? { signal } : {}),
  });
}
