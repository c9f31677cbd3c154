import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/server";
import { ProtocolError } from "@modelcontextprotocol/server";
import { toFaultJson, type Fault } from "../../../shared/fault/fault.ts";
import {
  isFailedCommand,
  limitDetails,
  resultLimits,
  type ToolContentPart,
  type ToolResult,
} from "../../tools/tool-result.ts";
import { invalidParams } from "./pages.ts";

/** A tool's result as MCP has it. A command that exited non-zero is an error to a model. */
export function toCallResult(result: ToolResult): CallToolResult {
  return {
    content: result.content.map(toBlock),
    structuredContent: limitDetails(result.details, resultLimits.contentBytes),
    ...(isFailedCommand(result.details) ? { isError: true } : {}),
  };
}

function toBlock(part: ToolContentPart): ContentBlock {
  if (part.type === "text") return { type: "text", text: part.text };
  return { type: "image", mimeType: part.mediaType, data: Buffer.from(part.data).toString("base64") };
}

/** A failed call as MCP has it: code and message for the model, everything for programs. */
export function toFailedResult(fault: Fault): CallToolResult {
  return {
    content: [{ type: "text", text: `${fault.code}: ${fault.message}` }],
    structuredContent: { error: { ...toFaultJson(fault) } },
    isError: true,
  };
}

/** A call that names no tool at all is no result but an error of the protocol. */
export function toUnknownTool(fault: Fault): ProtocolError {
  return new ProtocolError(invalidParams, fault.message, { ...toFaultJson(fault) });
}
