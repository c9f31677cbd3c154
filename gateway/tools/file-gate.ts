import type { JsonObject } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import { decodeListCursor } from "../../shared/names/list-cursor.ts";
import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import type { AdmittedPin } from "../files/admission.ts";
import type { Caller } from "./caller.ts";
import type { SurfaceTool, ToolNode } from "./surface.ts";
import type { CallPart } from "./tool-result.ts";

/** A call of a tool that acts on one path of a node's workspace. */
export interface FileGateCall {
  readonly caller: Caller;
  readonly callId: string;
  readonly tool: string;
  readonly node: ToolNode;
  /** As the call names it, or the session's; empty: the node's only one. */
  readonly workspace: string;
  /** Whether that is the session's own, which it was opened on. */
  readonly isBound: boolean;
  readonly path: string;
  readonly verb: "list" | "read" | "write";
  /** Whether a listing goes below the folder. */
  readonly isDeep: boolean;
  /** What else the answer of a person covers. */
  readonly terms: { readonly [name: string]: JsonValue };
  readonly noWait: boolean;
  readonly signal: AbortSignal;
}

/** By what a call goes on, and for how long. */
export interface FileLeave {
  /** What the node is told to act on, and nothing else. */
  readonly pin?: AdmittedPin | undefined;
  /** Aborts with the caller, and when policy forbids the call while it runs. */
  readonly signal: AbortSignal;
}

/**
 * Runs a call as the operation on files that it is: it is judged, asked about and recorded as if it came by the service of
 * files, and its answer holds nothing that the rules hide.
 */
export type FileGate = (
  call: FileGateCall,
  run: (leave: FileLeave) => AsyncIterable<CallPart>,
) => AsyncIterable<CallPart>;

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
  call: Pick<FileGateCall, "callId" | "noWait" | "signal"> & { readonly arguments: JsonObject },
): FileGateCall | undefined {
  const verb = Object.hasOwn(verbs, tool.nodeName) ? verbs[tool.nodeName] : undefined;
  const { node } = tool;
  if (!node || !verb) return undefined;
  const { workspace, path, ...terms } = call.arguments;
  const bound = caller.session?.nodeId === node.id ? caller.session.workspace : "";
  const named = typeof workspace === "string" && workspace !== "" ? workspace : bound;
  return {
    caller,
    callId: call.callId,
    tool: tool.name,
    node,
    workspace: named,
    isBound: bound !== "" && named === bound,
    path: typeof path === "string" ? path : "",
    verb,
    isDeep: call.arguments["recursive"] === true,
    terms: withoutContent(terms),
    noWait: call.noWait,
    signal: call.signal,
  };
}

/** Content is covered by its digest. */
function withoutContent({ content, ...terms }: JsonObject): FileGateCall["terms"] {
  // Arguments are plain JSON.
  const plain = terms as FileGateCall["terms"];
  if (typeof content !== "string") return plain;
  return { ...plain, writesBytes: Buffer.byteLength(content), contentDigest: digestOf(content) };
}
