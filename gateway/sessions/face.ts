import type { JsonObject } from "@bufbuild/protobuf";
import type { SessionsListSkillsResponse, Skill, Tool } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { SkillReason } from "../skills/catalogue-skill.ts";
import type { SkillFilePart } from "../skills/resources.ts";
import type { Explanation } from "../tools/explain.ts";
import type { CallPart } from "../tools/tool-result.ts";
import type { MemoryAnswer, MemoryFindings, MemoryLines, MemoryQuestion } from "./session-memory.ts";

/** A file of a skill, its path relative to the skill's folder. */
export interface FaceSkillFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly digest: string;
}

/** A tool as clients are told of it. */
export type FaceTool = Omit<Tool, "$typeName" | "$unknown">;

/** A skill as clients are told of it. */
export type FaceSkill = Omit<Skill, "$typeName" | "$unknown" | "reasons"> & {
  readonly reasons: readonly SkillReason[];
};

/** Skills as clients are told of them. */
export type FaceSkillList = Omit<SessionsListSkillsResponse, "$typeName" | "$unknown" | "skills"> & {
  readonly skills: readonly FaceSkill[];
};

/** A call as a client asks for it. */
export interface FaceCall {
  readonly name: string;
  readonly arguments: JsonObject;
  readonly signal: AbortSignal;
  /** Milliseconds that the tool may take. */
  readonly deadlineMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly noWait?: boolean | undefined;
  readonly traceparent?: string | undefined;
}

/** What of a session has changed. */
export type FaceChangeKind = "tools" | "skills" | "memory" | "state";

/** Something of a session that has changed. */
export interface FaceChange {
  readonly kind: FaceChangeKind;
  /** The digest after the change; empty where there is none. */
  readonly digest: string;
  /** Where the session stands now, for `state`. */
  readonly standing?: FaceStanding;
}

/** Where a session stands. */
export interface FaceStanding {
  /** `active`, `waiting_for_node` or `closed`, which is the last change. */
  readonly state: string;
  /** A `snake_case` word; empty when there is nothing to say. */
  readonly reason: string;
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** The next command where a person can help; else empty. */
  readonly nextStep: string;
}

/**
 * One session as its clients have it, in this process or behind a connection. Every method fails with `NOT_FOUND` once
 * the session is closed.
 */
export interface SessionFace {
  /** The session; empty for the operator's face. */
  readonly sessionId: string;
  /** In order of their names. */
  listTools(options: {
    readonly removed?: boolean;
    readonly signal: AbortSignal;
  }): Promise<{ readonly tools: readonly FaceTool[]; readonly surface: string }>;
  /** Leaving early cancels the call. */
  callTool(call: FaceCall): AsyncIterable<CallPart>;
  explainTool(options: { readonly name: string; readonly signal: AbortSignal }): Promise<Explanation>;
  /** In order of their names. */
  listSkills(options: { readonly signal: AbortSignal }): Promise<FaceSkillList>;
  /** The files of a skill as they are now, in order of their paths. */
  listSkillFiles(options: {
    readonly name: string;
    readonly signal: AbortSignal;
  }): Promise<readonly FaceSkillFile[]>;
  readSkill(options: {
    readonly name: string;
    /** Relative to the skill's folder; empty for its instruction file. */
    readonly path: string;
    readonly signal: AbortSignal;
  }): AsyncIterable<SkillFilePart>;
  searchMemory(question: MemoryQuestion): Promise<MemoryFindings>;
  getMemory(lines: MemoryLines): Promise<MemoryAnswer>;
  /** What changes from now on; a slow reader gets one item for many of a kind. Ends when the session is closed. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<FaceChange>;
}
