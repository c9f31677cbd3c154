import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  Sessions as SessionsDescriptor,
  SessionSchema,
  SessionsCallToolResponseSchema,
  SessionsGetOutcomeResponseSchema,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { SessionFace } from "../sessions/face.ts";
import { openLocalFace, type FaceParts } from "../sessions/session-face.ts";
import type { SessionInstalls } from "../sessions/session-installs.ts";
import { fitWait } from "../sessions/session-memory.ts";
import type { SessionRecord, Sessions } from "../sessions/sessions.ts";
import type { OutcomePart } from "../tools/call-outcome.ts";
import { operatorAgent } from "../tools/caller.ts";
import type { CallPart } from "../tools/tool-result.ts";

/** What the service of sessions stands on. */
export interface SessionsServiceOptions extends FaceParts {
  readonly sessions: Sessions;
  readonly installs: SessionInstalls;
}

type SessionMessage = MessageInitShape<typeof SessionSchema>;
type Service = ServiceImplementation<typeof SessionsDescriptor>;

/** The service that clients of sessions call; without a session as the operator. Whoever serves it checked who they are. */
export function createSessionsService(options: SessionsServiceOptions): Service {
  const face = (session: string): SessionFace => openLocalFace(session, options);
  return {
    ...sessionMethods(options),
    ...toolMethods(face),
    ...outcomeMethods(options),
    ...skillMethods(face),
    ...installMethods(options),
    ...memoryMethods(face, options),
  };
}

function sessionMethods(options: SessionsServiceOptions): Service {
  const { sessions } = options;
  const shown = (record: SessionRecord): Promise<SessionMessage> => toMessage(record, options);
  return {
    open: async ({ agent, workspace }) => ({
      session: await shown(await sessions.open({ agent, workspace })),
    }),
    list: async ({ all }) => ({ sessions: await Promise.all((await sessions.list({ all })).map(shown)) }),
    get: async ({ session }) => ({ session: await shown(await sessions.get(session)) }),
    close: async ({ session }) => ({ session: await shown(await sessions.close(session)) }),
  };
}

async function toMessage(record: SessionRecord, options: SessionsServiceOptions): Promise<SessionMessage> {
  const isOpen = record.state !== "closed";
  const caller = isOpen ? await options.sessions.caller(record.id) : undefined;
  return {
    id: record.id,
    agent: record.agent,
    workspace: record.address,
    state: record.state,
    reason: record.reason,
    sinceMs: BigInt(record.sinceMs),
    openedMs: BigInt(record.openedMs),
    snapshot: caller ? (await options.skills.list(caller)).snapshot : "",
    surface: caller ? (await options.tools.surface(caller)).digest : "",
  };
}

function toolMethods(face: (session: string) => SessionFace): Service {
  return {
    listTools: async ({ session, removed }, { signal }) => {
      const { tools, surface } = await face(session).listTools({ removed, signal });
      return { tools: [...tools], surface };
    },
    callTool: async function* callTool(request, context) {
      const parts = face(request.session).callTool({
        name: request.name,
        arguments: request.arguments ?? {},
        signal: context.signal,
        noWait: request.noWait,
        deadlineMs: request.deadlineMs === 0n ? undefined : Number(request.deadlineMs),
        idempotencyKey: request.idempotencyKey === "" ? undefined : request.idempotencyKey,
        traceparent: context.traceparent,
      });
      for await (const part of parts) yield toCallMessage(part);
    },
    explainTool: async ({ session, name }, { signal }) => {
      const { states, ...explanation } = await face(session).explainTool({ name, signal });
      return { ...explanation, states: [...states] };
    },
  };
}

function outcomeMethods({ sessions, tools }: SessionsServiceOptions): Service {
  return {
    getOutcome: async function* getOutcome({ session, ...request }, { signal }) {
      const caller = session === "" ? { agent: operatorAgent } : await sessions.caller(session);
      for await (const part of tools.outcome(caller, { ...request, signal })) yield toOutcomeMessage(part);
    },
  };
}

function installMethods({ sessions, installs }: SessionsServiceOptions): Service {
  return {
    installDependencies: async function* install({ session, ...request }, { signal }) {
      const caller = session === "" ? { agent: operatorAgent } : await sessions.caller(session);
      for await (const part of installs.install(caller, { ...request, signal })) yield { part };
    },
  };
}

function toOutcomeMessage(part: OutcomePart): MessageInitShape<typeof SessionsGetOutcomeResponseSchema> {
  switch (part.kind) {
    case "state":
      return { state: part.state, method: part.method };
    case "answer":
      return { answer: part.answer };
    case "message":
      return { answerJson: part.json };
  }
}

function toCallMessage(part: CallPart): MessageInitShape<typeof SessionsCallToolResponseSchema> {
  switch (part.kind) {
    case "started":
      return { callId: part.callId };
    case "waiting":
      return { approvalId: part.approvalId };
    case "output":
      return { answer: { part: { case: "output", value: { stream: part.stream, data: part.data } } } };
    case "result": {
      const content = part.result.content.map((piece) => ({ ...piece }));
      return { answer: { part: { case: "result", value: { content, details: part.result.details } } } };
    }
  }
}

function skillMethods(face: (session: string) => SessionFace): Service {
  return {
    listSkills: async ({ session }, { signal }) => {
      const { skills, ...list } = await face(session).listSkills({ signal });
      return { ...list, skills: skills.map((skill) => ({ ...skill, reasons: [...skill.reasons] })) };
    },
    listSkillFiles: async ({ session, name }, { signal }) => {
      const files = await face(session).listSkillFiles({ name, signal });
      return { files: files.map((file) => ({ ...file, sizeBytes: BigInt(file.sizeBytes) })) };
    },
    readSkill: async function* readSkill({ session, name, path }, { signal }) {
      for await (const part of face(session).readSkill({ name, path, signal })) {
        if (part.kind === "header") yield { sizeBytes: BigInt(part.sizeBytes) };
        else if (part.kind === "chunk") yield { chunk: part.bytes };
        else yield { digest: part.digest };
      }
    },
    watch: async function* watch({ session }, { signal }) {
      for await (const { kind, digest, standing } of face(session).changes({ signal })) {
        yield { kind, digest, ...(standing ? { ...standing, sinceMs: BigInt(standing.sinceMs) } : {}) };
      }
    },
  };
}

function memoryMethods(face: (session: string) => SessionFace, options: SessionsServiceOptions): Service {
  return {
    searchMemory: ({ session, query, workspace, limit, waitFresh, waitMs }, { signal, remainingMs }) =>
      face(session).searchMemory({
        query,
        workspace,
        limit,
        waitFresh,
        waitMs: fitWait(waitMs, remainingMs),
        vectorsMs: fitWait(0, remainingMs),
        signal,
      }),
    getMemory: ({ session, workspace, path, from, lines, digest }, { signal }) =>
      face(session).getMemory({ workspace, path, from, lines, digest, signal }),
    getMemoryStatus: async ({ workspace }) => ({
      workspaces: [...(await options.memory.status({ agent: operatorAgent }, workspace))],
      vectors: options.memory.vectors(),
    }),
  };
}
