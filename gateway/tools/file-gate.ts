import type { JsonObject } from "@bufbuild/protobuf";
import { decodeListCursor } from "../../shared/names/list-cursor.ts";
import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import type { Caller } from "./caller.ts";
import type { SurfaceTool, ToolNode } from "./surface.ts";

/** A call of a tool that acts on one path of a node's workspace. */
export interface FileGateCall {
  readonly caller: Caller;
  readonly tool: string;
  readonly node: ToolNode;
  /** As the call names it, or the session's; empty: the node's only one. */
  readonly workspace: string;
  readonly path: string;
  readonly verb: "list" | "read" | "write";
  readonly signal: AbortSignal;
}

/** Fails where the rules for files refuse what a tool would do, by the path that is asked for and by what it leads to. */
export type FileGate = (call: FileGateCall) => Promise<void>;

const verbs: Readonly<Record<string, FileGateCall["verb"]>> = { list: "list", read: "read", write: "write" };

/** Fails with `INVALID_ARGUMENT` for a cursor that is not of the listing which a call of `list` asks for. */
export function checkListCall({ node, nodeName }: SurfaceTool, given: JsonObject): void {
  if (!node || nodeName !== "list") return;
  const { path, cursor, recursive } = given;
  if (typeof cursor !== "string" || cursor === "") return;
  const listed = parseWorkspacePath(typeof path === "string" ? path : "", {
    platform: toPathPlatform(node.platform),
  });
  decodeListCursor({ path: listed, recursive: recursive === true }, cursor);
}

/** What a call would do with a file, as far as its tool is one for files. */
export function toGateCall(
  caller: Caller,
  tool: SurfaceTool,
  call: { readonly arguments: JsonObject; readonly signal: AbortSignal },
): FileGateCall | undefined {
  const verb = Object.hasOwn(verbs, tool.nodeName) ? verbs[tool.nodeName] : undefined;
  const { node } = tool;
  if (!node || !verb) return undefined;
  const { workspace, path } = call.arguments;
  const bound = caller.session?.nodeId === node.id ? caller.session.workspace : "";
  return {
    caller,
    tool: tool.name,
    node,
    workspace: typeof workspace === "string" && workspace !== "" ? workspace : bound,
    path: typeof path === "string" ? path : "",
    verb,
    signal: call.signal,
  };
}
