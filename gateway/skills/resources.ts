import { findNearest } from "../../shared/config/nearest.ts";
import { digestOf, isDigest } from "../../shared/content/digest.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { parseWorkspacePath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { BundleFile } from "../../shared/skill-file/bundle.ts";
import { instructionFileName } from "../../shared/skill-file/limits.ts";
import {
  type ContentKey,
  type ContentStore,
  maxContentBytes,
  type OpenContent,
} from "../files/content-store.ts";
import type { Links } from "../link/links.ts";
import { type Bundles, requireReader } from "./bundles.ts";
import type { CatalogueSkill, SkillList } from "./catalogue-skill.ts";
import type { RootReader } from "./root-reader.ts";

/** One part holds at most so many bytes. */
const chunkBytes = 256 * 1024;

/** A part of a skill's file: first the header, then chunks, last the trailer. */
export type SkillFilePart =
  | { readonly kind: "header"; readonly sizeBytes: number }
  | { readonly kind: "chunk"; readonly bytes: Uint8Array }
  | { readonly kind: "trailer"; readonly sizeBytes: number; readonly digest: string };

/** Which file. */
export interface ReadSkillOptions {
  readonly links: Links;
  /** What the asking session was shown: nothing else can be read. */
  readonly list: SkillList;
  /** The skill's name in that list. */
  readonly name: string;
  /** A companion file, relative to the skill's folder; the instruction file by default. */
  readonly path?: string;
  /** Where files are kept that were read before. */
  readonly content?: KeptSkillFiles;
  /** What tells the files of a revision; without it a companion is read as it is now. */
  readonly bundles?: Bundles;
  /** What reads a root of the gateway's own disk; without it none of its skills can be read. */
  readonly readerOf?: (root: string) => RootReader | undefined;
  /** What was read before is given also while its node is offline: a session keeps what it was shown. */
  readonly keepsOffline?: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The bytes of a skill's file, from where they are kept or from its node. The instruction file is the one that the list
 * names: one that was kept, or the node still has it, else `CONFLICT`. Fails with `NOT_FOUND` for a name that the list
 * does not show, `NODE_OFFLINE`, `INTEGRITY_FAILURE` for kept bytes that were altered while the node is offline, and
 * what the node says.
 */
export async function* readSkillFile(options: ReadSkillOptions): AsyncIterable<SkillFilePart> {
  const skill = findSkill(options.list, options.name);
  const path = options.path === undefined || options.path === "" ? "" : parseCompanion(options.path);
  const isInstructions = path === "" || path === instructionFileName;
  const digest = isInstructions ? skill.digest : await findCompanion(options, skill, path);
  const key = skill.nodeId !== "" && isDigest(digest) ? { nodeId: skill.nodeId, digest } : undefined;
  if (key && options.content && isKeepable(skill, options)) {
    using kept = await findKept(options.content, key, skill);
    if (kept) {
      yield* partsOf(kept.bytes, key.digest);
      return;
    }
  }
  requireReadable(skill);
  const read = { skill, path, digest };
  const parts = skill.nodeId === "" ? readFromOwnDisk(options, read) : readFromNode(options, read);
  yield* key && options.content ? keeping(parts, options.content, key) : parts;
}

/** The digest of a companion in the revision that the list shows; empty where none is known. */
async function findCompanion(
  { bundles, signal }: ReadSkillOptions,
  skill: CatalogueSkill,
  path: string,
): Promise<string> {
  if (!bundles || skill.revision === "") return "";
  const { files, problems } = await bundles.find(skill, signal);
  const found = files.find((file) => file.path === path);
  if (found) return found.digest;
  const problem = problems.find((one) => one.path === path);
  if (problem) throw problem.fault;
  throw new Fault("NOT_FOUND", `${path} is no file of ${skill.name}`, { details: { path } });
}

/** Where the content of skills' files is kept. */
export type KeptSkillFiles = Pick<ContentStore, "open" | "keep">;

/** An eligible skill, or one with a name whose node is away, where that is as good. */
function isKeepable(skill: CatalogueSkill, { keepsOffline }: ReadSkillOptions): boolean {
  if (skill.state === "eligible") return true;
  return keepsOffline === true && skill.state === "offline" && skill.location !== "";
}

async function findKept(
  content: KeptSkillFiles,
  key: ContentKey,
  { state }: CatalogueSkill,
): Promise<OpenContent | undefined> {
  try {
    return await content.open(key);
  } catch (error) {
    // What was altered comes from the node again, as long as there is one.
    if (state !== "offline" && isFault(error, "INTEGRITY_FAILURE")) return undefined;
    throw error;
  }
}

function* partsOf(bytes: Buffer, digest: string): Generator<SkillFilePart> {
  yield { kind: "header", sizeBytes: bytes.byteLength };
  for (let at = 0; at < bytes.byteLength; at += chunkBytes)
    yield { kind: "chunk", bytes: bytes.subarray(at, at + chunkBytes) };
  yield { kind: "trailer", sizeBytes: bytes.byteLength, digest };
}

/** Passes the parts on, and keeps what they are once all of it was seen. */
async function* keeping(
  parts: AsyncIterable<SkillFilePart>,
  content: KeptSkillFiles,
  key: ContentKey,
): AsyncGenerator<SkillFilePart, void> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  for await (const part of parts) {
    if (part.kind === "chunk") {
      sizeBytes += part.bytes.byteLength;
      // Whoever takes the part may give its memory back.
      if (sizeBytes <= maxContentBytes) pieces.push(Buffer.from(part.bytes));
    }
    if (part.kind === "trailer" && sizeBytes <= maxContentBytes) {
      const bytes = Buffer.concat(pieces);
      if (digestOf(bytes) === key.digest) await content.keep(key, bytes);
    }
    yield part;
  }
}

interface NodeRead {
  readonly skill: CatalogueSkill;
  readonly path: string;
  /** Which it has to have; empty for any. */
  readonly digest: string;
}

async function* readFromOwnDisk(
  { readerOf, signal }: ReadSkillOptions,
  { skill, path, digest }: NodeRead,
): AsyncGenerator<SkillFilePart, void> {
  const reader = requireReader(readerOf ?? (() => undefined), skill);
  const request = { folder: skill.folder as WorkspacePath, path, ifMatch: digest };
  for await (const part of reader.read(request, signal ?? new AbortController().signal)) {
    if (part.kind === "header") yield { kind: "header", sizeBytes: part.entry.sizeBytes };
    else yield part;
  }
}

async function* readFromNode(
  options: ReadSkillOptions,
  { skill, path, digest }: NodeRead,
): AsyncGenerator<SkillFilePart, void> {
  const parts = options.links
    .get(skill.nodeId)
    .client(Skills)
    .readFile(
      { workspace: skill.workspace, folder: skill.folder, path, ifMatch: digest },
      options.signal ? { signal: options.signal } : {},
    );
  for await (const { part } of parts) {
    if (part.case === "header")
      yield { kind: "header", sizeBytes: Number(part.value.entry?.sizeBytes ?? 0n) };
    if (part.case === "chunk") yield { kind: "chunk", bytes: part.value };
    if (part.case !== "trailer") continue;
    yield { kind: "trailer", sizeBytes: Number(part.value.sizeBytes), digest: part.value.digest };
  }
}

/** The files of a skill as the list shows them, in order of their paths; fails as `readSkillFile` does. */
export async function listSkillFiles({
  bundles,
  list,
  name,
  signal,
}: Pick<ReadSkillOptions, "list" | "name" | "signal"> & { readonly bundles: Bundles }): Promise<
  readonly BundleFile[]
> {
  const skill = findSkill(list, name);
  requireReadable(skill);
  return (await bundles.find(skill, signal)).files;
}

/** The skill of that name; an eligible one before any other. `NOT_FOUND` with the nearest name in the hint. */
export function findSkill(list: SkillList, name: string): CatalogueSkill {
  const named = list.skills.filter((skill) => skill.name === name);
  const found = named.find((skill) => skill.state === "eligible") ?? named[0];
  if (found) return found;
  const nearest = findNearest(
    name,
    list.skills.filter((skill) => skill.state === "eligible").map((skill) => skill.name),
  );
  throw new Fault("NOT_FOUND", `there is no skill ${JSON.stringify(name.slice(0, 64))}`, {
    hint: nearest === undefined ? "fairlead skills ls" : `did you mean ${nearest}?`,
    details: nearest === undefined ? {} : { nearest },
  });
}

/** The skill and file that a location of `list` leads to; `NOT_FOUND` for any other. */
export function findSkillByLocation(
  list: SkillList,
  location: string,
): { readonly skill: CatalogueSkill; readonly path: string } {
  for (const skill of list.skills) {
    if (skill.location === "") continue;
    const base = skill.location.slice(0, -instructionFileName.length);
    if (!location.startsWith(base)) continue;
    if (location === base)
      throw new Fault("PATH_INVALID", "the path of a skill's file is empty", {
        details: { field: "path", position: 0 },
        hint: `name the file; the instructions are ${instructionFileName}`,
      });
    return { skill, path: parseCompanion(decodePath(location.slice(base.length))) };
  }
  throw new Fault("NOT_FOUND", "no skill that this session was shown lies at that location", {
    hint: "use a location of the list of skills",
  });
}

/** Companion paths are judged as text, before any call: nothing is resolved that could lead elsewhere. */
function parseCompanion(path: string): string {
  if (path.includes("\\")) {
    throw new Fault("PATH_INVALID", "the path of a skill's file has a backslash", {
      details: { field: "path", position: path.indexOf("\\") },
      hint: "write / between names",
    });
  }
  return parseWorkspacePath(path);
}

function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    throw new Fault("PATH_INVALID", "the location is not well-formed", {
      details: { field: "location" },
      cause: error,
    });
  }
}

function requireReadable(skill: CatalogueSkill): void {
  if (skill.state === "eligible") return;
  if (skill.state === "offline") {
    throw new Fault("NODE_OFFLINE", `the skill ${skill.name} is on ${skill.owner}, which is offline`, {
      hint: `fairlead nodes show ${skill.owner}`,
    });
  }
  const [reason] = skill.reasons;
  throw new Fault("NOT_FOUND", `the skill ${skill.name} cannot be read: ${reason?.message ?? skill.state}`, {
    hint: reason?.hint === undefined || reason.hint === "" ? "fairlead skills ls" : reason.hint,
  });
}
