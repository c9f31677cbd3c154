import { parseRemotePath } from "../../shared/names/remote-path.ts";

/** `NODE:/WORKSPACE/PATH` as the workspace `NODE:/WORKSPACE` and the path below it. */
export function splitRemotePath(text: string): { readonly workspace: string; readonly path: string } {
  const { node, workspace, path } = parseRemotePath(text);
  return { workspace: `${node}:/${workspace}`, path };
}
