import type { JsonObject } from "@bufbuild/protobuf";
import type { Caller } from "./caller.ts";
import type { ToolDescription } from "./descriptor.ts";

/** What a tool of the gateway answers. */
export interface HostAnswer {
  /** For models. */
  readonly text: string;
  /** For programs. */
  readonly details: JsonObject;
}

/** What a tool of the gateway gets beside its arguments. */
export interface HostCall {
  readonly caller: Caller;
  readonly arguments: JsonObject;
  /** Milliseconds that it may take; the signal aborts then. */
  readonly deadlineMs: number;
  /** Aborts when the call ends early. */
  readonly signal: AbortSignal;
}

/** A tool of the gateway itself. */
export interface HostTool {
  readonly description: ToolDescription;
  run(call: HostCall): Promise<HostAnswer>;
}
