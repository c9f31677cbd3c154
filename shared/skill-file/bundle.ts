import { createHash } from "node:crypto";
import type { Digest } from "../content/digest.ts";
import { Fault } from "../fault/fault.ts";
import { compareByUtf8 } from "../names/byte-order.ts";

/** What the files of one skill may be: most files, the largest of them, and all together, in bytes. */
export interface BundleLimits {
  readonly files: number;
  readonly fileBytes: number;
  readonly totalBytes: number;
}

/** The limits of both sides unless their configuration says less. */
export const bundleLimits: BundleLimits = {
  files: 2000,
  fileBytes: 16 * 1024 * 1024,
  totalBytes: 64 * 1024 * 1024,
};

/** A file of a skill. */
export interface BundleFile {
  /** Relative to the skill's folder. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly digest: Digest;
  /** Whether its owner may run it. */
  readonly isExecutable: boolean;
}

/** Names the form of the hash's input: another form gives other hashes. */
const form = "skill revision 1";

/**
 * Names the files of a skill: path, digest, size and executable mark of each, and nothing else. Equal files give the
 * equal revision, in whatever order they come. What cannot be served counts by the words in `unserved`.
 */
export function revisionOf(files: readonly BundleFile[], unserved: readonly string[] = []): Digest {
  const hash = createHash("sha256").update(form);
  for (const { path, digest, sizeBytes, isExecutable } of files.toSorted((a, b) =>
    compareByUtf8(a.path, b.path),
  ))
    hash.update("\n").update(JSON.stringify([path, digest, sizeBytes, isExecutable]));
  for (const words of unserved.toSorted(compareByUtf8)) hash.update("\n").update(JSON.stringify(words));
  return `sha256:${hash.digest("hex")}` as Digest;
}

/** Longest path of a bundle, in characters, and most names in it. */
const maxPathLength = 512;
const maxPathNames = 16;

const reservedName = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\.|$)/iu;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const closedCharacters = /[\u0000-\u001f\u007f-\u009f\\<>:"|?*]/u;

/**
 * Why a path can be in no bundle, in the words of the fault; undefined for one that every system takes as it is. A bundle
 * is written on machines other than its own, some of which read the names that others write in other ways.
 */
export function findPathDefect(path: string): string | undefined {
  if (path.length > maxPathLength) return `is longer than ${maxPathLength} characters`;
  const names = path.split("/");
  if (names.length > maxPathNames) return `has more than ${maxPathNames} names`;
  if (path !== path.normalize("NFC")) return "is not in Unicode's composed form (NFC)";
  const closed = closedCharacters.exec(path)?.[0];
  if (closed !== undefined) return `has ${JSON.stringify(closed)} in it`;
  for (const name of names) {
    if (name === "" || name === "." || name === "..") return "has an empty name, . or .. in it";
    if (/[. ]$/u.test(name)) return "has a name that ends in a dot or a space";
    if (reservedName.test(name)) return `has the name of a device in it: ${name}`;
  }
  return undefined;
}

/** The `PATH_INVALID` of a path in a bundle; `reason` completes "the path …". */
export function bundlePathInvalid(path: string, reason: string): Fault {
  return new Fault("PATH_INVALID", `${JSON.stringify(path.slice(0, 200))} ${reason}`, {
    details: { field: "path", path: path.slice(0, 200) },
    hint: "rename the file",
  });
}

/** Paths that equal an earlier one but for the case of their letters. */
export function findCaseTwins(paths: readonly string[]): ReadonlySet<string> {
  const seen = new Map<string, string>();
  const twins = new Set<string>();
  for (const path of paths) {
    const folded = path.toLowerCase();
    const first = seen.get(folded);
    if (first === undefined) seen.set(folded, path);
    else if (first !== path) twins.add(path);
  }
  return twins;
}

/** The `LIMIT_REACHED` of a skill with more files than the limit. */
export function tooManyFiles(limits: BundleLimits, actual: number): Fault {
  return new Fault("LIMIT_REACHED", `the skill has more than ${limits.files} files`, {
    details: { limit: limits.files, actual },
    hint: "remove files, or keep what tools make in node_modules, .venv or __pycache__",
  });
}

/** The `TOO_LARGE` of a skill whose files are more than the limit together. */
export function bundleTooLarge(limits: BundleLimits, actual: number): Fault {
  return new Fault("TOO_LARGE", `the files of the skill are more than ${limits.totalBytes} bytes together`, {
    details: { limit: limits.totalBytes, actual },
    hint: "keep large files out of the skill's folder",
  });
}
