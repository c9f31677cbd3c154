import { readFile } from "node:fs/promises";
import path from "node:path";
import { errnoOf, faultFromErrno } from "../../../../shared/fault/fault-from-errno.ts";
import { makePrivateFolder, writePrivateFile } from "../../../../shared/identity/private-files.ts";
import type { SyncEntry } from "./sync-entry.ts";

/** A file of this machine whose digest is known, and what tells that it is still the same. */
export interface KnownFile {
  readonly sizeBytes: number;
  readonly modifiedNs: bigint;
  readonly changedNs: bigint;
  readonly inode: bigint;
  readonly digest: string;
}

/** What is remembered of a sync between one remote folder and one local one. */
export interface SyncState {
  /** Which folders they were. */
  readonly remoteIdentity: string;
  readonly localIdentity: string;
  /** Of the remote tree, with its entries as they were then; empty when it was not seen whole. */
  readonly remoteDigest: string;
  readonly remoteEntries: readonly SyncEntry[];
  /** The content of each path that both had when the sync ended. */
  readonly base: ReadonlyMap<string, string>;
  readonly localFiles: ReadonlyMap<string, KnownFile>;
  /** The content that a run was about to bring to the target, which ended before it could say what it had brought. */
  readonly coming: ReadonlyMap<string, string>;
}

/** Where the memory of syncs is kept. */
export interface StatePlace {
  /** The home. */
  readonly dir: string;
  /** Of the two folders: 32 hex digits. */
  readonly key: string;
}

const version = 1;

/** What is remembered; undefined when nothing is. What cannot be read is nothing: all is then compared anew. */
export async function readState({ dir, key }: StatePlace): Promise<SyncState | undefined> {
  let text: string;
  try {
    text = await readFile(path.join(dir, "sync", `${key}.json`), "utf8");
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, "the memory of this sync");
  }
  try {
    return fromJson(JSON.parse(text) as StateJson);
  } catch {
    return undefined;
  }
}

/** Remembers a sync, in place of the one before. */
export async function writeState({ dir, key }: StatePlace, state: SyncState): Promise<void> {
  const folder = path.join(dir, "sync");
  await makePrivateFolder(folder);
  await writePrivateFile(path.join(folder, `${key}.json`), JSON.stringify(toJson(state)));
}

type EntryJson = readonly [
  path: string,
  kind: SyncEntry["kind"],
  sizeBytes: number,
  mode: number,
  ns: string,
  content: string,
];
type FileJson = readonly [
  path: string,
  sizeBytes: number,
  modified: string,
  changed: string,
  inode: string,
  digest: string,
];

interface StateJson {
  readonly version: number;
  readonly remoteIdentity: string;
  readonly localIdentity: string;
  readonly remoteDigest: string;
  readonly remoteEntries: readonly EntryJson[];
  readonly base: readonly (readonly [string, string])[];
  readonly localFiles: readonly FileJson[];
  readonly coming?: readonly (readonly [string, string])[];
}

function toJson(state: SyncState): StateJson {
  const { remoteIdentity, localIdentity, remoteDigest } = state;
  return {
    version,
    remoteIdentity,
    localIdentity,
    remoteDigest,
    remoteEntries: state.remoteEntries.map((entry) => [
      entry.path,
      entry.kind,
      entry.sizeBytes,
      entry.mode,
      String(entry.modifiedNs),
      entry.content,
    ]),
    base: [...state.base],
    coming: [...state.coming],
    localFiles: [...state.localFiles].map(([at, file]) => [
      at,
      file.sizeBytes,
      String(file.modifiedNs),
      String(file.changedNs),
      String(file.inode),
      file.digest,
    ]),
  };
}

function fromJson(json: StateJson): SyncState | undefined {
  if (json.version !== version) return undefined;
  const { remoteIdentity, localIdentity, remoteDigest } = json;
  return {
    remoteIdentity,
    localIdentity,
    remoteDigest,
    remoteEntries: json.remoteEntries.map(([at, kind, sizeBytes, mode, ns, content]) => ({
      path: at,
      kind,
      sizeBytes,
      mode,
      modifiedNs: BigInt(ns),
      content,
    })),
    base: new Map(json.base),
    coming: new Map(json.coming ?? []),
    localFiles: new Map(
      json.localFiles.map(([at, sizeBytes, modified, changed, inode, digest]) => [
        at,
        {
          sizeBytes,
          modifiedNs: BigInt(modified),
          changedNs: BigInt(changed),
          inode: BigInt(inode),
          digest,
        },
      ]),
    ),
  };
}
