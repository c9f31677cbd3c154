import { createDigester, type Digest, isDigest } from "../content/digest.ts";
import { faultFromError } from "../fault/fault-from-error.ts";
import { Fault } from "../fault/fault.ts";
import {
  appendPath,
  isBeneath,
  parseWorkspacePath,
  pathNames,
  relativePath,
  type WorkspacePath,
} from "../names/workspace-path.ts";
import type { KnownFiles } from "../root/known-files.ts";
import type { Entry, OpenFile, Problem, RootHandle } from "../root/root-handle.ts";
import {
  type BundleFile,
  type BundleLimits,
  bundleLimits,
  bundlePathInvalid,
  bundleTooLarge,
  findCaseTwins,
  findPathDefect,
  tooManyFiles,
} from "./bundle.ts";
import { defaultSkillLimits, instructionFileName } from "./limits.ts";

/** The bytes of a file of a skill: first what it is, then its content, last what was read. */
export type SkillFileBytes =
  | { readonly kind: "header"; readonly entry: Entry; readonly path: WorkspacePath }
  | { readonly kind: "chunk"; readonly bytes: Uint8Array }
  | { readonly kind: "trailer"; readonly sizeBytes: number; readonly digest: Digest };

/** Which file of which skill. */
export interface SkillFileRequest {
  /** The skill's folder, relative to the root. */
  readonly folder: WorkspacePath;
  /** Relative to the skill's folder; empty for the instruction file. */
  readonly path: string;
  /** The digest that the file must have; empty for any. */
  readonly ifMatch: string;
}

/** What a skill's folder holds. */
export interface SkillFiles {
  /** In order of the paths' UTF-8 bytes. */
  readonly files: readonly BundleFile[];
  /** What cannot be served, with the reason; paths are relative to the skill's folder. */
  readonly problems: readonly Problem[];
}

/** What `listSkillFiles` takes. */
export interface ListSkillFilesOptions {
  readonly signal: AbortSignal;
  /** The digests of files that were read before; without it every file is read. */
  readonly known?: KnownFiles<Digest>;
  readonly limits?: BundleLimits;
}

/** Folders that tools make for themselves: no part of a skill. */
const cacheFolders: ReadonlySet<string> = new Set(["node_modules", "__pycache__", ".venv", ".git"]);

const chunkBytes = 256 * 1024;

/** Whether a companion lies in a folder that tools make for themselves; `path` is relative to the skill's folder. */
export function isInCache(path: string): boolean {
  return path.split("/").some((name) => cacheFolders.has(name));
}

/** The bytes of a skill's file, all of one state. `CONFLICT` with both digests when it is not the one that was asked for. */
export async function* readSkillFile(
  root: RootHandle,
  request: SkillFileRequest,
  signal: AbortSignal,
): AsyncIterable<SkillFileBytes> {
  const path = await findFile(root, request);
  const isInstructions = path === appendPath(request.folder, parseWorkspacePath(instructionFileName));
  const maxBytes = isInstructions ? defaultSkillLimits.maxInstructionBytes : bundleLimits.fileBytes;
  await using file = await root.openFile(path, { maxBytes });
  // Read twice where a digest is asked for: nothing is sent before it is known to be the right content.
  if (request.ifMatch !== "") requireMatch(request, await digestFile(file, signal));
  yield { kind: "header", entry: file.entry, path };
  const digester = createDigester();
  for await (const bytes of chunksOf(file, signal)) {
    digester.update(bytes);
    yield { kind: "chunk", bytes };
  }
  if (file.hasChanged()) throw changed(path);
  yield { kind: "trailer", sizeBytes: digester.sizeBytes, digest: digester.digest() };
}

/**
 * The files of a skill with their digests; what cannot be served is named with the reason. A link whose target lies in
 * the same skill stands for that file. Fails as a whole with `NOT_FOUND` where no skill is, and with `LIMIT_REACHED` or
 * `TOO_LARGE` for one beyond the limits.
 */
export async function listSkillFiles(
  root: RootHandle,
  folder: WorkspacePath,
  options: ListSkillFilesOptions,
): Promise<SkillFiles> {
  const { signal, limits = bundleLimits } = options;
  await requireSkill(root, folder);
  const files: BundleFile[] = [];
  const problems: Problem[] = [];
  let totalBytes = 0;
  const hide = (path: WorkspacePath): boolean => isInCache(relativePath(path, folder));
  for await (const batch of root.walk(folder, { hide, signal })) {
    for (const item of batch) {
      if (item.kind === "problem") {
        problems.push({ ...item.problem, path: below(item.problem.path, folder) });
        continue;
      }
      const { entry } = item;
      if (entry.kind === "folder") continue;
      const path = relativePath(entry.path, folder);
      if (files.length >= limits.files) throw tooManyFiles(limits, limits.files + 1);
      try {
        const defect = findPathDefect(path);
        if (defect !== undefined) throw bundlePathInvalid(path, defect);
        const found = await readEntry(root, { entry, folder }, options);
        totalBytes += found.sizeBytes;
        files.push({ ...found, path });
      } catch (error) {
        signal.throwIfAborted();
        problems.push({ path, fault: faultFromError(error) });
      }
      if (totalBytes > limits.totalBytes) throw bundleTooLarge(limits, totalBytes);
    }
  }
  const twins = findCaseTwins(files.map((file) => file.path));
  for (const path of twins)
    problems.push({ path, fault: bundlePathInvalid(path, "equals another path but for case") });
  return { files: files.filter((file) => !twins.has(file.path)), problems };
}

async function readEntry(
  root: RootHandle,
  { entry, folder }: { readonly entry: Entry; readonly folder: WorkspacePath },
  { signal, known, limits = bundleLimits }: ListSkillFilesOptions,
): Promise<Omit<BundleFile, "path">> {
  const target = entry.kind === "link" ? entry.linkLeadsTo : undefined;
  const isOwn = target !== undefined && isBeneath(target, folder) && !isInCache(relativePath(target, folder));
  const path = isOwn ? target : entry.path;
  const kept = entry.kind === "file" ? known?.find(entry) : undefined;
  if (kept !== undefined && entry.sizeBytes <= limits.fileBytes)
    return { sizeBytes: entry.sizeBytes, digest: kept, isExecutable: isExecutable(entry) };
  await using file = await root.openFile(path, { maxBytes: limits.fileBytes });
  const digest = await digestFile(file, signal);
  known?.keep(file.entry, digest);
  return { sizeBytes: file.entry.sizeBytes, digest, isExecutable: isExecutable(file.entry) };
}

function isExecutable({ mode }: Entry): boolean {
  return (mode & 0o100) !== 0;
}

async function findFile(root: RootHandle, request: SkillFileRequest): Promise<WorkspacePath> {
  if (request.path.includes("\\")) {
    throw new Fault("PATH_INVALID", "the path of a skill's file has a backslash", {
      details: { field: "path", position: request.path.indexOf("\\") },
    });
  }
  const path = parseWorkspacePath(request.path === "" ? instructionFileName : request.path);
  if (request.ifMatch !== "" && !isDigest(request.ifMatch)) {
    throw new Fault("INVALID_ARGUMENT", "ifMatch is no digest", { details: { field: "ifMatch" } });
  }
  if (isInCache(path) || pathNames(path).length === 0) {
    throw new Fault("NOT_FOUND", `${path} is no file of the skill`, { details: { path } });
  }
  if (path !== instructionFileName) await requireSkill(root, request.folder);
  return appendPath(request.folder, path);
}

/** A folder is a skill's only while its instruction file is there and may be read. */
async function requireSkill(root: RootHandle, folder: WorkspacePath): Promise<void> {
  await root.stat(appendPath(folder, parseWorkspacePath(instructionFileName)));
}

async function digestFile(file: OpenFile, signal: AbortSignal): Promise<Digest> {
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

function below(path: string, folder: WorkspacePath): string {
  return folder !== "" && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}

function changed(path: string): Fault {
  return new Fault("PATH_CHANGED", `${path} was changed while it was read`, { details: { path } });
}
