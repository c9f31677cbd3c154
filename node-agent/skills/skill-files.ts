import type { MessageInitShape } from "@bufbuild/protobuf";
import { createDigester, type Digest, isDigest } from "../../shared/content/digest.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import {
  EntryKind,
  type EntryProblemSchema,
  type EntrySchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type {
  SkillsListFilesResponseSchema,
  SkillsReadFileResponseSchema,
} from "../../shared/gen/fairlead/v1/skills_pb.ts";
import {
  appendPath,
  parseWorkspacePath,
  relativePath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import type { Entry, OpenFile, RootHandle } from "../../shared/root/root-handle.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { defaultSkillLimits, instructionFileName } from "../../shared/skill-file/limits.ts";
import { isInCache, parseSkillFolder } from "./skill-paths.ts";

/** Most files of one skill, and the largest of them, in bytes. */
export const bundleLimits: { readonly files: number; readonly fileBytes: number } = {
  files: 2000,
  fileBytes: 16 * 1024 * 1024,
};

const chunkBytes = 256 * 1024;

/** Which file of which skill. */
export interface SkillFileRequest {
  readonly workspace: string;
  readonly folder: string;
  /** Relative to the skill's folder; empty for the instruction file. */
  readonly path: string;
  /** The digest that the file must have; empty for any. */
  readonly ifMatch: string;
}

type FilePart = MessageInitShape<typeof SkillsReadFileResponseSchema>;

/** The bytes of a skill's file, all of one state. `CONFLICT` with both digests when it is not the one that was asked for. */
export async function* readSkillFile(
  root: RootHandle,
  request: SkillFileRequest,
  signal: AbortSignal,
): AsyncIterable<FilePart> {
  const path = await findFile(root, request);
  const isInstructions = path.endsWith(`/${instructionFileName}`);
  const maxBytes = isInstructions ? defaultSkillLimits.maxInstructionBytes : bundleLimits.fileBytes;
  await using file = await root.openFile(path, { maxBytes });
  // Read twice where a digest is asked for: nothing is sent before it is known to be the right content.
  if (request.ifMatch !== "") requireMatch(request, await digestOf(file, signal));
  const source = { workspace: request.workspace, requestedPath: path, canonicalPath: file.canonicalPath };
  yield { part: { case: "header", value: { entry: toEntry(file.entry, path), source } } };
  const digester = createDigester();
  for await (const chunk of chunksOf(file, signal)) {
    digester.update(chunk);
    yield { part: { case: "chunk", value: chunk } };
  }
  if (file.hasChanged()) throw changed(path);
  yield {
    part: { case: "trailer", value: { sizeBytes: BigInt(digester.sizeBytes), digest: digester.digest() } },
  };
}

/** The files of a skill with their digests; what cannot be served is named with the reason. */
export async function listSkillFiles(
  root: RootHandle,
  folderText: string,
  signal: AbortSignal,
): Promise<MessageInitShape<typeof SkillsListFilesResponseSchema>> {
  const folder = parseSkillFolder(folderText);
  await requireSkill(root, folder);
  const files: MessageInitShape<typeof EntrySchema>[] = [];
  const problems: MessageInitShape<typeof EntryProblemSchema>[] = [];
  const hide = (path: WorkspacePath): boolean => isInCache(relativePath(path, folder));
  for await (const batch of root.walk(folder, { hide, signal })) {
    for (const item of batch) {
      if (item.kind === "problem") {
        problems.push({ path: below(item.problem.path, folder), fault: toWireFault(item.problem.fault) });
        continue;
      }
      if (item.entry.kind === "folder") continue;
      const path = relativePath(item.entry.path, folder);
      if (files.length >= bundleLimits.files) throw tooManyFiles();
      try {
        await using file = await root.openFile(item.entry.path, { maxBytes: bundleLimits.fileBytes });
        files.push({ ...toEntry(file.entry, path), digest: await digestOf(file, signal) });
      } catch (error) {
        signal.throwIfAborted();
        problems.push({ path, fault: toWireFault(faultFromError(error)) });
      }
    }
  }
  return { files, problems };
}

async function findFile(root: RootHandle, request: SkillFileRequest): Promise<WorkspacePath> {
  const folder = parseSkillFolder(request.folder);
  if (request.path.includes("\\")) {
    throw new Fault("PATH_INVALID", "the path of a skill's file has a backslash", {
      details: { field: "path", position: request.path.indexOf("\\") },
    });
  }
  const path = parseWorkspacePath(request.path === "" ? instructionFileName : request.path);
  if (request.ifMatch !== "" && !isDigest(request.ifMatch)) {
    throw new Fault("INVALID_ARGUMENT", "ifMatch is no digest", { details: { field: "ifMatch" } });
  }
  if (isInCache(path)) {
    throw new Fault("NOT_FOUND", `${path} is no file of the skill`, { details: { path } });
  }
  if (path !== instructionFileName) await requireSkill(root, folder);
  return appendPath(folder, path);
}

/** A folder is a skill's only while its instruction file is there and may be read. */
async function requireSkill(root: RootHandle, folder: WorkspacePath): Promise<void> {
  await root.stat(appendPath(folder, parseWorkspacePath(instructionFileName)));
}

async function digestOf(file: OpenFile, signal: AbortSignal): Promise<Digest> {
  const digester = createDigester();
  for await (const chunk of chunksOf(file, signal)) digester.update(chunk);
  if (file.hasChanged()) throw changed(file.entry.path);
  return digester.digest();
}

async function* chunksOf(file: OpenFile, signal: AbortSignal): AsyncIterable<Uint8Array> {
  for (let position = 0; ;) {
    signal.throwIfAborted();
    // A buffer of its own for each chunk: it is still on its way when the next one is read.
    const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, Math.max(1, file.entry.sizeBytes - position)));
    const sizeBytes = await file.read(buffer, position);
    if (sizeBytes > 0) yield buffer.subarray(0, sizeBytes);
    position += sizeBytes;
    if (sizeBytes < buffer.byteLength || position >= file.entry.sizeBytes) return;
  }
}

function requireMatch(request: SkillFileRequest, actual: Digest): void {
  if (actual === request.ifMatch) return;
  throw new Fault("CONFLICT", "the skill's file is not the one that was asked for any more", {
    details: { expected: request.ifMatch, actual },
    hint: "list the skills again",
  });
}

function toEntry(entry: Entry, path: WorkspacePath): MessageInitShape<typeof EntrySchema> {
  return {
    path,
    kind: EntryKind.FILE,
    sizeBytes: BigInt(entry.sizeBytes),
    mode: entry.mode,
    modifiedNs: entry.mtimeNs,
  };
}

function below(path: string, folder: WorkspacePath): string {
  return path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}

function changed(path: string): Fault {
  return new Fault("PATH_CHANGED", `${path} was changed while it was read`, { details: { path } });
}

function tooManyFiles(): Fault {
  return new Fault("LIMIT_REACHED", `the skill has more than ${bundleLimits.files} files`, {
    details: { limit: bundleLimits.files, actual: bundleLimits.files + 1 },
  });
}
