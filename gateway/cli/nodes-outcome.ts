import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { ToolResult } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { parseJson } from "../../shared/terminal/parse-json.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { openGateway } from "./open-gateway.ts";
import { printOutput, printResult } from "./tool-call.ts";

/** `nodes outcome`: how a call ended whose caller lost it, as the node wrote it down. */
export const nodesOutcome: CommandModule = {
  words: "nodes outcome",
  summary: "ask a node how a call ended that was lost, by the call's id; nothing is run again",
  example: "fairlead nodes outcome devbox 5e0c3a52-8f0c-4d55-a3a1-2f6f1d9b7c10 --follow",
  args: [
    { name: "<node>", text: "alias, id, or a prefix of the id of at least 6 characters" },
    { name: "<call>", text: "the call's id: callId in the details of its error" },
  ],
  options: [
    { flags: "--follow", text: "wait for its end, and print what a command still says" },
    { flags: "--stdout-offset <bytes>", text: "standard output of the command that is here already" },
    { flags: "--stderr-offset <bytes>", text: "standard error of the command that is here already" },
  ],
  callsNode: true,
  run: askOutcome,
};

const offsets = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;

async function askOutcome(input: CommandInput, runtime: Runtime): Promise<number> {
  const startedAt = runtime.clock.now();
  const callId = input.argument("call");
  await using gateway = await openGateway(runtime);
  const parts = gateway.client(Sessions).getOutcome(
    {
      node: input.argument("node"),
      callId,
      follow: input.flag("follow"),
      stdoutOffset: BigInt(input.integer("stdout-offset", offsets) ?? 0),
      stderrOffset: BigInt(input.integer("stderr-offset", offsets) ?? 0),
    },
    { signal: runtime.signal, deadlineMs: runtime.deadlineMs ?? maxDeadlineMs },
  );
  const seen: Seen = { state: "", method: "", streamed: false, messages: [], result: undefined };
  for await (const { state, method, answer, answerJson } of parts) {
    if (state !== "") Object.assign(seen, { state, method });
    if (answerJson !== "") seen.messages.push(parseJson(answerJson, "answer"));
    if (answer?.part.case === "output" && !runtime.output.json) {
      seen.streamed = true;
      await printOutput(runtime, answer.part.value);
    } else if (answer?.part.case === "result") seen.result = answer.part.value;
  }
  if (seen.result) {
    const end = { callId, streamed: seen.streamed, durationMs: runtime.clock.now() - startedAt };
    return await printResult(runtime, seen.result, { ...end, state: "ended" });
  }
  if (seen.state === "") throw new Fault("INTERNAL", "the gateway said nothing about the call");
  const { state, method, messages } = seen;
  await runtime.output.result({ callId, state, method, answer: messages }, () => [
    state === "running" ? `it runs (${method})` : `it ended well (${method})`,
    ...messages.map((message) => JSON.stringify(message)),
  ]);
  return 0;
}

interface Seen {
  state: string;
  method: string;
  streamed: boolean;
  readonly messages: JsonValue[];
  result: ToolResult | undefined;
}
