import type { JsonObject } from "@bufbuild/protobuf";
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
