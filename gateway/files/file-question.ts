import { Fault } from "../../shared/fault/fault.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { NodeRecord } from "../pairing/nodes.ts";

/** What somebody wants to do with a path. */
export type FileVerb = "list" | "read" | "write" | "remove" | "move" | "mkdir";

/** What policy is asked. */
export interface FileQuestion {
  readonly node: NodeRecord;
  readonly workspace: string;
  readonly verb: FileVerb;
  readonly path: WorkspacePath;
  /** `requested` before the node is called, `canonical` for the path that the node reports. */
  readonly stage: "requested" | "canonical";
  /** Who asks. */
  readonly context: CallContext;
}

/** What policy answers. */
export interface FileVerdict {
  readonly decision: "allow" | "deny";
  /** The step that decided. */
  readonly rule: string;
  /** Why, for people. */
  readonly reason?: string;
  readonly hint?: string;
}

/** Judges one path. */
export type DecideFile = (question: FileQuestion) => FileVerdict | Promise<FileVerdict>;

/** The fault of a denial, or undefined. */
export function toDenial(question: FileQuestion, verdict: FileVerdict): Fault | undefined {
  if (verdict.decision === "allow") return undefined;
  const path = question.path === "" ? "the workspace's root" : question.path;
  const why = verdict.reason ?? `the gateway's policy does not let you ${question.verb} ${path}`;
  return new Fault("POLICY_DENIED", why, {
    hint:
      verdict.hint ??
      `the node's profile bounds what may be done: fairlead nodes show ${question.node.alias}`,
    details: { rule: verdict.rule, side: "gateway", path: question.path },
  });
}
