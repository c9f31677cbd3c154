import { Fault } from "../fault/fault.ts";
import { parseWorkspaceName, type WorkspaceName } from "./alias.ts";
import { parseWorkspacePath, type PathPlatform, type WorkspacePath } from "./workspace-path.ts";

/** A path on a node, as people write it: `NODE:/workspace/path`. */
export interface RemotePath {
  /** An alias, an id, or an id prefix; not looked up yet. */
  readonly node: string;
  /** The name under which the node exports the folder. */
  readonly workspace: WorkspaceName;
  /** The path below the workspace's root. */
  readonly path: WorkspacePath;
}

/** What `parseRemotePath` takes besides the text. */
export interface ParseRemotePathOptions {
  /** The node's platform, where it is known; `posix` by default. */
  readonly platform?: PathPlatform;
  /** Name of the argument, for `details.field`; `path` by default. */
  readonly field?: string;
}

const remoteShape = /^([A-Za-z0-9][A-Za-z0-9_-]*):\/(.*)$/s;

/** Whether `text` looks like `NODE:/…`, so that it is taken for a remote path. */
export function isRemotePath(text: string): boolean {
  return remoteShape.test(text);
}

/**
 * `NODE:/workspace/path` in its parts. `/` after the workspace or after a folder is allowed once at the end. Another
 * shape is `INVALID_ARGUMENT`, a wrong path `PATH_INVALID` with `details.position` in the whole text.
 */
export function parseRemotePath(text: string, options: ParseRemotePathOptions = {}): RemotePath {
  const field = options.field ?? "path";
  const [, node, rest] = remoteShape.exec(text) ?? [];
  if (node === undefined || rest === undefined || rest === "") {
    throw new Fault("INVALID_ARGUMENT", `${JSON.stringify(text.slice(0, 200))} is no remote path`, {
      details: { field },
      hint: "write NODE:/workspace/path, for example devbox:/app/src/main.ts",
    });
  }
  const slash = rest.indexOf("/");
  const workspace = parseWorkspaceName(slash < 0 ? rest : rest.slice(0, slash), field);
  const below = slash < 0 ? "" : rest.slice(slash + 1);
  const path = below.length > 1 && below.endsWith("/") ? below.slice(0, -1) : below;
  return {
    node,
    workspace,
    path: parseWorkspacePath(path, { ...options, field, offset: text.length - below.length }),
  };
}

/** `remote` as people write it; reads back as the same. */
export function formatRemotePath(remote: RemotePath): string {
  return `${remote.node}:/${remote.workspace}${remote.path === "" ? "" : `/${remote.path}`}`;
}
