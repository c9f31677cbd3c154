import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { NodeRecord } from "../pairing/nodes.ts";

/** What somebody wants to do with a path. */
export type FileVerb = "list" | "read" | "write" | "remove" | "move" | "mkdir";

/** What exactly is done: each is allowed for itself. */
export type FileKind =
  | "stat"
  | "list"
  | "list_tree"
  | "read"
  | "read_tree"
  | "write"
  | "write_tree"
  | "remove"
  | "remove_tree"
  | "move"
  | "mkdir"
  | "watch_tree"
  | "find_part"
  | "drop_part"
  | "settle";

/** What policy is asked. */
export interface FileQuestion {
  readonly node: NodeRecord;
  readonly workspace: string;
  readonly verb: FileVerb;
  readonly kind: FileKind;
  /** The path that is judged. */
  readonly path: WorkspacePath;
  /** The path that was asked for. */
  readonly requestedPath: WorkspacePath;
  /** `requested` before the node is called, `canonical` for the path that the node reports. */
  readonly stage: "requested" | "canonical";
  /** Who asks. */
  readonly context: CallContext;
}

/** What policy answers. */
export interface FileVerdict {
  readonly decision: "allow" | "deny" | "ask";
  /** The step that decided. */
  readonly rule: string;
  /** Why, for people. */
  readonly reason?: string | undefined;
  readonly hint?: string | undefined;
  /** The standing grant by which it is allowed. */
  readonly grantId?: string | undefined;
  /** Of a denial: whether a deny rule covers the path, so that it is as if it were not there. */
  readonly isHidden?: boolean | undefined;
  /** Whether some path of the workspace is asked for: what a path leads to is then looked at before anything is done. */
  readonly mayAsk?: boolean | undefined;
}

/** Judges one path. */
export type DecideFile = (question: FileQuestion) => FileVerdict | Promise<FileVerdict>;

/** The fault of a denial, or undefined. What is asked elsewhere is a denial where nobody can be asked. */
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

/** Who a call acts for. */
export interface FileActor {
  readonly agent: string;
  readonly sessionId: string | undefined;
  /** The tool by which it comes; undefined for calls on files themselves. */
  readonly tool: string | undefined;
}

/** What a person is asked about an operation. */
export interface FileAsk {
  readonly actor: FileActor;
  readonly nodeId: string;
  /** One line. */
  readonly title: string;
  /** All that the answer covers, as it is shown. */
  readonly shown: { readonly [name: string]: JsonValue };
  /** What the answer covers and nobody needs to see. */
  readonly covers: readonly string[];
  readonly rule: string;
  /** Whether a standing grant may come of it. */
  readonly mayGrant: boolean;
}

/** What a standing grant will be for, once the operation that was asked about has succeeded. */
export interface FileGrant {
  readonly actor: FileActor;
  readonly nodeId: string;
  readonly workspace: string;
  readonly kind: FileKind;
  readonly requestedPath: string;
  readonly canonicalPath: string;
}

/** The people who are asked. */
export interface FilePeople {
  /** The id of the approval that allows it; `APPROVAL_REQUIRED` at once for who does not wait, else as approvals end. */
  ask(
    question: FileAsk,
    options: { readonly context: CallContext; readonly noWait: boolean },
  ): Promise<string>;
  /** Stores the standing grant that whoever allowed it wanted; nothing where none was wanted. */
  keepGrant(approvalId: string, grant: FileGrant): Promise<void>;
}
