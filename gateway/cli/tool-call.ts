import { Fault, isFault, type JsonValue } from "../../shared/fault/fault.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { ToolOutput, ToolResult } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { terminalText } from "../../shared/log/safe-text.ts";
import { requireWellFormed } from "../../shared/names/well-formed.ts";
import { defaultDeadlineMs, maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { OptionSpec } from "../../shared/terminal/command.ts";
import { isJsonObject, parseJson } from "../../shared/terminal/parse-json.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { isFailedCommand } from "../tools/tool-result.ts";
import { toJsonValue } from "./fault-to-json.ts";
import { askingMs, openGateway } from "./open-gateway.ts";

/** What every way to call a tool takes. */
export const callOptions: readonly OptionSpec[] = [
  { flags: "--args <json>", text: "arguments as a JSON object, or - to read them from standard input" },
  { flags: "--no-wait", text: "fail with APPROVAL_REQUIRED instead of waiting for a person" },
];

/** Which tool to call, in which session; without one as the operator. */
export interface ToolCall {
  readonly name: string;
  readonly session?: string | undefined;
}

const argumentsMaxBytes = 1_048_576;

/** Calls a tool and prints what comes: output as it comes, then the result. Gives 1 when a command exited non-zero. */
export async function callTool(input: CommandInput, runtime: Runtime, call: ToolCall): Promise<number> {
  const given = await readArguments(input, runtime);
  const startedAt = runtime.clock.now();
  await using gateway = await openGateway(runtime);
  const answers = gateway.client(Sessions).callTool(
    {
      session: call.session ?? "",
      name: call.name,
      arguments: given,
      noWait: !input.flag("wait"),
      deadlineMs: BigInt(runtime.deadlineMs ?? 0),
    },
    // The gateway holds the tool's own time, and that of the person who is asked before it.
    {
      signal: runtime.signal,
      deadlineMs: Math.min((runtime.deadlineMs ?? defaultDeadlineMs) + askingMs, maxDeadlineMs),
    },
  );
  let callId = "";
  let streamed = false;
  let result: ToolResult | undefined;
  for await (const { callId: id, approvalId, answer } of withCallId(answers, call.name)) {
    if (id !== "") callId = id;
    if (approvalId !== "")
      runtime.output.note(`waiting for a person to say: fairlead approvals allow ${approvalId}`);
    if (answer?.part.case === "output" && !runtime.output.json) {
      streamed = true;
      await printOutput(runtime, answer.part.value);
    } else if (answer?.part.case === "result") result = answer.part.value;
  }
  if (!result) throw new Fault("INTERNAL", `the call of ${call.name} ended without a result`);
  return await printResult(runtime, result, {
    callId,
    streamed,
    durationMs: runtime.clock.now() - startedAt,
  });
}

/** A gateway that went away in the middle of a call knows no more of it, its node does: the error says how to ask. */
async function* withCallId<T extends { readonly callId: string }>(
  answers: AsyncIterable<T>,
  name: string,
): AsyncGenerator<T> {
  let callId = "";
  try {
    for await (const answer of answers) {
      if (answer.callId !== "") ({ callId } = answer);
      yield answer;
    }
  } catch (error) {
    if (!isFault(error, "GATEWAY_UNREACHABLE") || callId === "") throw error;
    const [alias] = name.split("__");
    const node = name.includes("__") ? alias : "NODE";
    throw error.with({
      details: { callId },
      hint: `it may have run; once the gateway is back: fairlead nodes outcome ${node} ${callId} --follow`,
    });
  }
}

async function readArguments(input: CommandInput, runtime: Runtime): Promise<Record<string, never>> {
  const text = input.text("args");
  if (text === undefined) return {};
  const { signal } = runtime;
  const json =
    text === "-"
      ? await runtime.input.readText({ what: "the arguments", maxBytes: argumentsMaxBytes, signal })
      : text;
  const parsed = requireWellFormed(parseJson(json, "args"), "args");
  if (isJsonObject(parsed)) return parsed as Record<string, never>;
  throw new Fault("INVALID_ARGUMENT", "--args is not a JSON object", {
    hint: `write it like --args '{"path": "README.md"}'`,
    details: { field: "args" },
  });
}

/** Prints a piece of output where it belongs. */
export async function printOutput(runtime: Runtime, output: ToolOutput): Promise<void> {
  if (output.stream === "stderr") {
    const text = Buffer.from(output.data).toString("utf8");
    process.stderr.write(runtime.output.isErrorTerminal ? terminalText(text) : output.data);
  } else if (runtime.output.isTerminal) await runtime.output.text(Buffer.from(output.data).toString("utf8"));
  else await runtime.output.bytes(output.data);
}

/** What is said of a call beside its result. */
export interface CallEnd {
  readonly callId: string;
  /** Of a call that was asked about. */
  readonly state?: string;
  readonly streamed: boolean;
  readonly durationMs: number;
}

/** Prints the result of a call; gives 1 when a command exited non-zero. */
export async function printResult(runtime: Runtime, result: ToolResult, end: CallEnd): Promise<number> {
  const { details = {}, content } = result;
  if (runtime.output.json) {
    const json: JsonValue = {
      callId: end.callId,
      ...(end.state === undefined ? {} : { state: end.state }),
      content: content.map(({ type, text, mediaType, data }) =>
        type === "text" ? { type, text } : { type, mediaType, data: Buffer.from(data).toString("base64") },
      ),
      details: toJsonValue(details),
      durationMs: end.durationMs,
    };
    await runtime.output.result(json, () => []);
  } else if (end.streamed) {
    if (details["timedOut"] === true) runtime.output.note("note: the command was ended: its time was over");
    else if (typeof details["signal"] === "string")
      runtime.output.note(`note: the command was ended by ${details["signal"]}`);
  } else {
    for (const { type, text, mediaType, data } of content) {
      const shown = type === "text" ? text : `[${mediaType}, ${data.byteLength} bytes]`;
      await runtime.output.text(shown.endsWith("\n") || shown === "" ? shown : `${shown}\n`);
    }
  }
  return isFailedCommand(details) ? 1 : 0;
}
