import type { Caller } from "../../gateway/tools/caller.ts";
import type { CallRequest } from "../../gateway/tools/run-call.ts";
import type { ToolResult } from "../../gateway/tools/tool-result.ts";
import type { Tools } from "../../gateway/tools/tools.ts";

/** Runs a call to its end; output goes to `onOutput`. Rejects with the call's fault. */
export async function callTool(
  tools: Pick<Tools, "call">,
  caller: Caller,
  request: Omit<CallRequest, "signal"> & {
    readonly signal?: AbortSignal;
    readonly onOutput?: (text: string) => void;
  },
): Promise<ToolResult> {
  const { onOutput, signal = new AbortController().signal, ...more } = request;
  for await (const part of tools.call(caller, { ...more, signal })) {
    if (part.kind === "output") onOutput?.(Buffer.from(part.data).toString());
    if (part.kind === "result") return part.result;
  }
  throw new Error("the call ended without a result");
}
