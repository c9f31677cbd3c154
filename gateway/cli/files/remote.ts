import type { JsonValue } from "../../../shared/fault/fault.ts";
import type { Entry, EntryProblem, Source } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { EntryKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { formatRemotePath, parseRemotePath, type RemotePath } from "../../../shared/names/remote-path.ts";
import { baseName } from "../../../shared/names/workspace-path.ts";
import { faultToJson } from "../fault-to-json.ts";

/** A remote path as a command takes it. */
export interface Remote {
  /** `NODE:/WORKSPACE`. */
  readonly workspace: string;
  /** Below the workspace's root. */
  readonly path: string;
  /** Written with a slash at its end: a place to put things into. */
  readonly isFolder: boolean;
  /** The whole, as people write it. */
  readonly shown: string;
  /** What it would be called elsewhere: its last name, or the workspace's. */
  readonly name: string;
}

/** Parses `NODE:/WORKSPACE/PATH`; faults as `parseRemotePath`. */
export function parseRemote(text: string, field = "path"): Remote {
  const parsed: RemotePath = parseRemotePath(text, { field });
  return {
    workspace: `${parsed.node}:/${parsed.workspace}`,
    path: parsed.path,
    isFolder: text.endsWith("/"),
    shown: formatRemotePath(parsed),
    name: baseName(parsed.path) || parsed.workspace,
  };
}

/** `remote` with one name more. */
export function remoteChild(remote: Remote, name: string): Remote {
  const path = remote.path === "" ? name : `${remote.path}/${name}`;
  return { ...remote, path, isFolder: false, shown: `${remote.workspace}/${path}`, name };
}

const kindWords: Readonly<Record<number, string>> = {
  [EntryKind.FILE]: "file",
  [EntryKind.FOLDER]: "folder",
  [EntryKind.LINK]: "link",
};

/** An entry's kind in a word. */
export function kindWord(kind: EntryKind): string {
  return kindWords[kind] ?? "other";
}

/** Permission bits as people write them. */
export function modeText(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

/** Nanoseconds since 1970 as RFC 3339 to the microsecond. */
export function timeText(modifiedNs: bigint): string {
  const micros = (((modifiedNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n) / 1000n;
  const seconds = new Date(
    Number((modifiedNs - (((modifiedNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n)) / 1_000_000n),
  );
  return seconds.toISOString().replace(/\.\d+Z$/, `.${micros.toString().padStart(6, "0")}Z`);
}

/** An entry as `--json` shows it. */
export function entryToJson(entry: Entry): { readonly [key: string]: JsonValue } {
  return {
    path: entry.path,
    kind: kindWord(entry.kind),
    sizeBytes: Number(entry.sizeBytes),
    mode: modeText(entry.mode),
    modifiedAt: timeText(entry.modifiedNs),
    ...(entry.linkTarget === "" ? {} : { linkTarget: entry.linkTarget }),
    ...(entry.digest === "" ? {} : { digest: entry.digest }),
  };
}

/** An entry that could not be served, as `--json` shows it. */
export function problemToJson({ path, fault }: EntryProblem): JsonValue {
  return { path, error: faultToJson(fault) };
}

/** Where an answer comes from, as `--json` shows it; null when it was not said. */
export function sourceToJson(source: Source | undefined): JsonValue {
  if (!source) return null;
  const { nodeId, workspace, requestedPath, canonicalPath } = source;
  return { nodeId, workspace, requestedPath, canonicalPath };
}
