import { ProtocolError, type Resource } from "@modelcontextprotocol/server";
import { Fault, isFault, toFaultJson } from "../../../shared/fault/fault.ts";
import { compareByUtf8 } from "../../../shared/names/byte-order.ts";
import type { FaceSkill, SessionFace } from "../../sessions/face.ts";
import { invalidParams } from "./pages.ts";

/** A file of a skill as the Skills extension lists it. */
interface SkillEntryFile {
  readonly uri: string;
  readonly digest: string;
  readonly size: number;
}

/** A skill as the Skills extension lists it. */
export interface SkillEntry {
  readonly uri: string;
  readonly frontmatter: Readonly<Record<string, unknown>>;
  /** All of its files; `dynamic` while its node cannot say them, and for one of more files than an entry may have. */
  readonly resources: readonly SkillEntryFile[] | "dynamic";
}

/** Most files of a skill that its entry names. */
const maxEntryFiles = 512;

/** Skills whose files are asked for at a time. */
const askedAtOnce = 8;

/** Most bytes of one file of a skill that one answer carries. */
export const maxResourceBytes = 4_194_304;

const fileName = "SKILL.md";
const internalError = -32_603;

/** The eligible skills of a face, in order of their addresses, one for each address. */
export async function listEligible(
  face: SessionFace,
  signal: AbortSignal,
): Promise<{ readonly skills: readonly FaceSkill[]; readonly snapshot: string }> {
  const { skills, snapshot } = await face.listSkills({ signal });
  const byAddress = new Map<string, FaceSkill>();
  for (const skill of skills) {
    if (skill.state === "eligible" && skill.location !== "") byAddress.set(skill.location, skill);
  }
  const sorted = [...byAddress.values()].toSorted((a, b) => compareByUtf8(a.location, b.location));
  return { skills: sorted, snapshot };
}

/** A skill's instruction file as a resource. */
export function toResource(skill: FaceSkill): Resource {
  return { uri: skill.location, name: skill.name, description: skill.description, mimeType: "text/markdown" };
}

/** Skills as the extension lists them, with their files as they are now. */
export async function toEntries(
  face: SessionFace,
  skills: readonly FaceSkill[],
  signal: AbortSignal,
): Promise<SkillEntry[]> {
  const entries: SkillEntry[] = [];
  for (let at = 0; at < skills.length; at += askedAtOnce) {
    const some = skills.slice(at, at + askedAtOnce);
    entries.push(...(await Promise.all(some.map((skill) => toEntry(face, skill, signal)))));
  }
  return entries;
}

async function toEntry(face: SessionFace, skill: FaceSkill, signal: AbortSignal): Promise<SkillEntry> {
  const base = skill.location.slice(0, -fileName.length);
  const plain = { uri: skill.location, frontmatter: parseFrontMatter(skill) };
  try {
    const files = await face.listSkillFiles({ name: skill.name, signal });
    if (files.length === 0 || files.length > maxEntryFiles) return { ...plain, resources: "dynamic" };
    const toUri = (path: string): string => `${base}${path.split("/").map(encodeURIComponent).join("/")}`;
    const resources = files.map(({ path, digest, sizeBytes }) => ({
      uri: toUri(path),
      digest,
      size: sizeBytes,
    }));
    return { ...plain, resources };
  } catch {
    signal.throwIfAborted();
    // One skill whose node has just gone costs no other one its place.
    return { ...plain, resources: "dynamic" };
  }
}

function parseFrontMatter(skill: FaceSkill): Readonly<Record<string, unknown>> {
  const plain = { name: skill.name, description: skill.description };
  return skill.frontMatterJson === "" ? plain : { ...(JSON.parse(skill.frontMatterJson) as object) };
}

/** The skill with that address; error -32602 for any other. */
export async function getSkill(face: SessionFace, uri: string, signal: AbortSignal): Promise<FaceSkill> {
  const { skills } = await listEligible(face, signal);
  const found = skills.find((skill) => skill.location === uri);
  if (found) return found;
  throw unknownAddress(uri);
}

/** A file of a skill as the contents of a resource. */
export interface ResourceContents {
  readonly uri: string;
  readonly mimeType: string;
  readonly text?: string;
  readonly blob?: string;
}

/** The bytes at an address below a skill of this face; error -32602 for any other address. */
export async function readAddress(
  face: SessionFace,
  uri: string,
  signal: AbortSignal,
): Promise<ResourceContents> {
  const { skills } = await listEligible(face, signal);
  for (const skill of skills) {
    const base = skill.location.slice(0, -fileName.length);
    if (!uri.startsWith(base) || uri === base) continue;
    const path = decodePath(uri.slice(base.length), uri);
    const bytes = await collect(face, { name: skill.name, path: path === fileName ? "" : path, signal, uri });
    return toContents(uri, path, bytes);
  }
  throw unknownAddress(uri);
}

interface FileRequest {
  readonly name: string;
  readonly path: string;
  readonly signal: AbortSignal;
  readonly uri: string;
}

async function collect(face: SessionFace, { uri, ...request }: FileRequest): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const part of face.readSkill(request)) {
      if (part.kind === "header") requireBounded(part.sizeBytes);
      if (part.kind !== "chunk") continue;
      sizeBytes += part.bytes.byteLength;
      requireBounded(sizeBytes);
      chunks.push(Uint8Array.from(part.bytes));
    }
  } catch (error) {
    if (isFault(error, "NOT_FOUND") || isFault(error, "PATH_INVALID")) throw unknownAddress(uri);
    if (error instanceof Fault)
      throw new ProtocolError(internalError, error.message, { ...toFaultJson(error) });
    throw error;
  }
  return Buffer.concat(chunks, sizeBytes);
}

function requireBounded(sizeBytes: number): void {
  if (sizeBytes <= maxResourceBytes) return;
  throw new Fault("TOO_LARGE", "the file is too large for one answer", {
    details: { limit: maxResourceBytes, actual: sizeBytes },
    hint: "read it with fairlead skills read",
  });
}

/** Names are judged as text: an encoded separator never becomes one. */
function decodePath(text: string, uri: string): string {
  const names = text.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw unknownAddress(uri);
    }
  });
  if (names.some((name) => name === "" || name === "." || name === ".." || /[/\\\0]/.test(name))) {
    throw unknownAddress(uri);
  }
  return names.join("/");
}

function toContents(uri: string, path: string, bytes: Buffer): ResourceContents {
  const text = bytes.toString("utf8");
  // Bytes that are no text are sent as they are.
  if (!Buffer.from(text, "utf8").equals(bytes)) {
    return { uri, mimeType: "application/octet-stream", blob: bytes.toString("base64") };
  }
  return { uri, mimeType: path.endsWith(".md") ? "text/markdown" : "text/plain", text };
}

function unknownAddress(uri: string): ProtocolError {
  return new ProtocolError(invalidParams, `there is no resource at ${uri.slice(0, 200)}`, {
    uri: uri.slice(0, 200),
  });
}
