import { mkdir, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { errnoOf, faultFromErrno } from "../../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { parseWorkspacePath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import { openRoot } from "../../../shared/root/open-root.ts";
import type { RootHandle } from "../../../shared/root/root-handle.ts";

/** What an earlier command left that was killed is taken away: in the folder, or in all of the tree. */
type Sweep = false | true | "top";

/** A place on this machine: a folder that exists, opened, and a name in it. */
export interface LocalPlace extends AsyncDisposable {
  readonly root: RootHandle;
  /** The name in the folder; empty where the folder itself is meant. */
  readonly path: WorkspacePath;
  /** As messages show it. */
  readonly shown: string;
}

/** Where `get` puts what it fetches. */
export interface LocalTarget extends LocalPlace {
  /** The user wrote this very name; else it was taken from the source. */
  readonly isNamed: boolean;
}

/** Where `get` puts a single file: into `local` when that is a folder or ends in a slash, else under this very name. */
export async function openFileTarget(local: string, name: string): Promise<LocalTarget> {
  const isNamed = !endsInSlash(local) && !(await isFolderAt(local));
  return { ...(await openBeside(isNamed ? local : path.join(local, name), "top")), isNamed };
}

/** Where `get` puts a tree: `local` becomes its root; with a slash at its end the tree is put into it. */
export async function openTreeTarget(local: string, name: string): Promise<LocalTarget> {
  const isNamed = !endsInSlash(local) && local !== ".";
  const target = isNamed ? local : path.join(local, name);
  const isThere = await isFolderAt(target);
  return { ...(isThere ? await openItself(target, true) : await openBeside(target, "top")), isNamed };
}

/** The folder that several sources go into: `NOT_FOUND` where nothing is there, `NOT_A_DIRECTORY` for anything else. */
export async function requireFolder(local: string): Promise<void> {
  if (await isFolderAt(local)) return;
  const isSomething = await isThere(local);
  throw new Fault(
    isSomething ? "NOT_A_DIRECTORY" : "NOT_FOUND",
    isSomething ? `${local} is no folder` : `the folder ${local} does not exist`,
    {
      details: { path: local },
      hint: isSomething ? "name a folder for several sources" : `mkdir -p ${local}`,
    },
  );
}

/** The folder that `local` names, links resolved; as it is named where it is not there yet. */
export async function resolveLocal(local: string): Promise<string> {
  try {
    return await realpath(local);
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw faultFromErrno(error, local);
    return path.resolve(local);
  }
}

/** The folder that is synced: made where it is missing, or undefined. `NOT_A_DIRECTORY` for anything else. */
export async function openSyncFolder(local: string, makes: boolean): Promise<LocalPlace | undefined> {
  if (!(await isThere(local))) {
    if (!makes) return undefined;
    await attempt(local, () => mkdir(local));
  }
  return await openItself(local, makes);
}

async function isThere(local: string): Promise<boolean> {
  try {
    await stat(local);
    return true;
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw faultFromErrno(error, local);
    return false;
  }
}

/** What `put` takes: links in `local` itself are followed, as a person who names one means its target. */
export async function openSource(local: string): Promise<LocalPlace & { readonly kind: "file" | "folder" }> {
  const real = await attempt(local, () => realpath(local));
  const kind = (await attempt(local, () => stat(real))).isDirectory() ? "folder" : "file";
  const place = kind === "folder" ? await openItself(real) : await openBeside(real);
  return { ...place, kind, shown: local, [Symbol.asyncDispose]: () => place.root[Symbol.asyncDispose]() };
}

/** What `local` would be called elsewhere. */
export function localName(local: string): string {
  const name = path.basename(path.resolve(local));
  if (name !== "") return name;
  throw new Fault("INVALID_ARGUMENT", "the root of this machine's disk cannot be sent", {
    details: { field: "local" },
  });
}

async function openItself(folder: string, sweep: Sweep = false): Promise<LocalPlace> {
  const root = await openHere(path.resolve(folder), folder, sweep);
  return {
    root,
    path: parseWorkspacePath(""),
    shown: folder,
    [Symbol.asyncDispose]: () => root[Symbol.asyncDispose](),
  };
}

async function openBeside(target: string, sweep: Sweep = false): Promise<LocalPlace> {
  const absolute = path.resolve(target);
  const name = parseWorkspacePath(path.basename(absolute), { field: "local" });
  const root = await openHere(path.dirname(absolute), path.dirname(target), sweep);
  return { root, path: name, shown: target, [Symbol.asyncDispose]: () => root[Symbol.asyncDispose]() };
}

/** This is the user's own disk: files with several names are theirs to read, and to replace by name. */
async function openHere(absolute: string, shown: string, sweep: Sweep): Promise<RootHandle> {
  const real = await attempt(shown, () => realpath(absolute));
  return await attempt(shown, () => openRoot(real, { allowHardLinks: true, sweep, shown }));
}

async function isFolderAt(local: string): Promise<boolean> {
  try {
    return (await stat(local)).isDirectory();
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw faultFromErrno(error, local);
    return false;
  }
}

async function attempt<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw faultFromErrno(error, shown === "" ? "." : shown);
  }
}

function endsInSlash(local: string): boolean {
  return local.endsWith("/") || local.endsWith(path.sep);
}
