import type { Sessions } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { maxDeadlineMs, noDeadline } from "../../../shared/rpc/deadline.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import type { FaceChange, FaceChangeKind, SessionFace } from "../../sessions/face.ts";
import type { SkillFilePart } from "../../skills/resources.ts";
import { toolStates, type ToolStateAnswer, type ToolStateName } from "../../tools/explain.ts";
import type { CallPart, ToolContentPart } from "../../tools/tool-result.ts";

/** The face of a session whose gateway is at the other end of `client`. */
export function openRemoteFace(client: Client<typeof Sessions>, sessionId: string): SessionFace {
  const session = sessionId;
  return {
    sessionId,
    listTools: ({ removed, signal }) => client.listTools({ session, removed: removed === true }, { signal }),
    callTool: (call) => callTool(client, session, call),
    explainTool: async ({ name, signal }) => {
      const { failed, states, ...answer } = await client.explainTool({ session, name }, { signal });
      const { reason, hint } = answer;
      return {
        name: answer.name,
        states: states.flatMap(toStateAnswer),
        failed: toStateName(failed) ?? "",
        reason,
        hint,
      };
    },
    listSkills: ({ signal }) => client.listSkills({ session }, { signal }),
    listSkillFiles: async ({ name, signal }) => {
      const { files } = await client.listSkillFiles({ session, name }, { signal });
      return files.map(({ path, sizeBytes, digest }) => ({ path, sizeBytes: Number(sizeBytes), digest }));
    },
    readSkill: ({ name, path, signal }) => readSkill(client, { session, name, path, signal }),
    searchMemory: ({ signal, workspace = "", limit = 0, waitFresh = false, waitMs = 0, query }) =>
      client.searchMemory({ session, query, workspace, limit, waitFresh, waitMs }, { signal }),
    getMemory: ({ signal, workspace = "", digest = "", path, from, lines }) => {
      const range = { ...(from === undefined ? {} : { from }), ...(lines === undefined ? {} : { lines }) };
      return client.getMemory({ session, workspace, path, digest, ...range }, { signal });
    },
    changes: ({ signal }) => watch(client, session, signal),
  };
}

async function* callTool(
  client: Client<typeof Sessions>,
  session: string,
  call: Parameters<SessionFace["callTool"]>[0],
): AsyncGenerator<CallPart> {
  const { signal, traceparent } = call;
  const answers = client.callTool(
    {
      session,
      name: call.name,
      arguments: call.arguments,
      deadlineMs: BigInt(call.deadlineMs ?? 0),
      idempotencyKey: call.idempotencyKey ?? "",
      noWait: call.noWait === true,
    },
    // The gateway holds the tool's own time, and that of the person who is asked before it.
    { signal, deadlineMs: maxDeadlineMs, ...(traceparent === undefined ? {} : { traceparent }) },
  );
  for await (const { callId, approvalId, answer } of answers) {
    if (callId !== "") yield { kind: "started", callId };
    if (approvalId !== "") yield { kind: "waiting", approvalId };
    if (answer?.part.case === "output") {
      const { stream, data } = answer.part.value;
      yield { kind: "output", stream: stream === "stderr" ? "stderr" : "stdout", data };
    } else if (answer?.part.case === "result") {
      const { content, details } = answer.part.value;
      const pieces = content.map((piece): ToolContentPart =>
        piece.type === "image"
          ? { type: "image", mediaType: piece.mediaType, data: piece.data }
          : { type: "text", text: piece.text },
      );
      yield { kind: "result", result: { content: pieces, details: details ?? {} } };
    }
  }
}

interface SkillRequest {
  readonly session: string;
  readonly name: string;
  readonly path: string;
  readonly signal: AbortSignal;
}

async function* readSkill(
  client: Client<typeof Sessions>,
  { signal, ...request }: SkillRequest,
): AsyncGenerator<SkillFilePart> {
  let sizeBytes = 0;
  let isFirst = true;
  for await (const part of client.readSkill(request, { signal })) {
    if (isFirst) yield { kind: "header", sizeBytes: Number(part.sizeBytes) };
    isFirst = false;
    sizeBytes += part.chunk.byteLength;
    if (part.chunk.byteLength > 0) yield { kind: "chunk", bytes: part.chunk };
    if (part.digest !== "") yield { kind: "trailer", sizeBytes, digest: part.digest };
  }
}

const kinds: readonly FaceChangeKind[] = ["tools", "skills", "memory", "state"];

async function* watch(
  client: Client<typeof Sessions>,
  session: string,
  signal: AbortSignal,
): AsyncGenerator<FaceChange> {
  for await (const change of client.watch({ session }, { signal, deadlineMs: noDeadline })) {
    const { kind, digest, state, reason, sinceMs, nextStep } = change;
    const known = kinds.find((one) => one === kind);
    const standing = { state, reason, sinceMs: Number(sinceMs), nextStep };
    if (known) yield { kind: known, digest, ...(known === "state" ? { standing } : {}) };
  }
}

function toStateName(text: string): ToolStateName | undefined {
  return toolStates.find((state) => state === text);
}

function toStateAnswer(answer: {
  state: string;
  holds: string;
  evidence: string;
}): readonly ToolStateAnswer[] {
  const state = toStateName(answer.state);
  if (!state) return [];
  const holds = answer.holds === "yes" || answer.holds === "no" ? answer.holds : "not_yet";
  return [{ state, holds, evidence: answer.evidence }];
}
