import type { JsonObject } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import type { ToolResult } from "./tool-result.ts";

/** What all steps of one call see: made before the first, frozen. */
export interface CallFacts {
  readonly callId: string;
  /** The canonical name. */
  readonly tool: string;
  readonly owner: string;
  readonly node: string;
  readonly agent: string;
  readonly sessionId: string;
  readonly workspace: string;
  readonly signal: AbortSignal;
}

/** How a call ended. */
export interface CallEnding {
  readonly result: ToolResult | undefined;
  readonly fault: Fault | undefined;
  readonly durationMs: number;
}

/** Where others take part in a call. A gate that throws blocks the call. */
export interface CallHooks {
  /** Before anything else; throws to refuse. */
  trustedPolicy?(facts: CallFacts, given: JsonObject): Promise<void>;
  /** May give other arguments; throws to refuse. */
  beforeToolCall?(facts: CallFacts, given: JsonObject): Promise<JsonObject | undefined>;
  /** Watches the end of a call that was executed, also of one that failed. */
  afterToolCall?(facts: CallFacts, ending: CallEnding): Promise<void>;
  /** Gets the bounded result as it would be kept. */
  toolResultPersist?(facts: CallFacts, kept: ToolResult): void;
}
