import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { Files, Pin } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { ToolAnswerSchema } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { CallContext, ServiceImplementation } from "../../shared/rpc/service.ts";

/** One call of a tool of this machine, its arguments checked. */
export interface ToolRun {
  /** The export that the call acts on. */
  readonly workspace: string;
  /** The registration of it that the call is for; 0 for any. */
  readonly leaseEpoch: bigint;
  /** What was shown of a file and allowed. */
  readonly pin: Pin | undefined;
  readonly arguments: JsonObject;
  /** The approval that the gateway names; empty: nobody was asked. */
  readonly approvalId: string;
  /** The session that calls, for people on this machine; empty: an operator. */
  readonly sessionId: string;
  /** The agent of the session. */
  readonly agent: string;
  readonly context: CallContext;
}

/** A part of an answer: output while it runs, the result last. */
export type ToolPart = MessageInitShape<typeof ToolAnswerSchema>;

/** How a tool runs. */
export type RunTool = (run: ToolRun) => AsyncIterable<ToolPart>;

/** What the file tools stand on: this machine's own file operations, which hold its permissions. */
export type ToolFiles = Required<Pick<ServiceImplementation<typeof Files>, "list" | "read" | "write">>;

/** The last part of an answer. */
export function toResult(text: string, details: JsonObject): ToolPart {
  return { part: { case: "result", value: { content: [{ type: "text", text }], details } } };
}

/** The text argument `name`, or undefined. */
export function findText(given: JsonObject, name: string): string | undefined {
  const value = given[name];
  return typeof value === "string" ? value : undefined;
}

/** The number argument `name`, or undefined. */
export function findNumber(given: JsonObject, name: string): number | undefined {
  const value = given[name];
  return typeof value === "number" ? value : undefined;
}
