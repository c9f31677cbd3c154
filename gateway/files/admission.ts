import type { JsonValue } from "../../shared/fault/fault.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import {
  EntryKind,
  FileOperation,
  type FilesListResponse,
  type FilesPreflightResponse,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type {
  FileActor,
  FileKind,
  FilePeople,
  FileQuestion,
  FileVerb,
  FileVerdict,
} from "./file-question.ts";
import { toDenial } from "./file-question.ts";
import { callOptions, type Target, toSource } from "./target.ts";

/** What the node is told to act on, and nothing else. */
export interface AdmittedPin {
  readonly canonicalPath: string;
  readonly identity: string;
}

/** By what an operation may go on. */
export interface Admission {
  readonly rule: string;
  readonly grantId: string | undefined;
  readonly approvalId: string | undefined;
  /** For each target, where a person or a grant allowed exactly one thing. */
  readonly pins: readonly (AdmittedPin | undefined)[];
  /** What each target leads to, where that was looked at. */
  readonly canonicalPaths: readonly (string | undefined)[];
}

/** What is to be admitted. */
export interface AdmissionRequest {
  /** One, or for a move where from and where to. */
  readonly targets: readonly Target[];
  readonly actor: FileActor;
  /** What else an answer covers, as it is shown. */
  readonly terms: { readonly [name: string]: JsonValue };
  readonly noWait: boolean;
  readonly people: FilePeople | undefined;
}

/**
 * Whether an operation may go on, by policy, by a standing grant or by a person who is shown exactly what it acts on.
 * Fails with `POLICY_DENIED`, and as approvals end.
 */
export async function admit(request: AdmissionRequest): Promise<Admission> {
  const requested = await judgeAll(request.targets, (target) => target.path, "requested");
  if (!requested.some(({ mayAsk }) => mayAsk === true)) return toAdmission(requested, {});
  const seen = await Promise.all(request.targets.map(look));
  const all = [...requested, ...(await judgeAll(request.targets, canonicalOf(seen), "canonical"))];
  const pins = seen.map(({ canonicalPath, answer }) => ({ canonicalPath, identity: answer.identity }));
  const canonicalPaths = seen.map(({ canonicalPath }) => canonicalPath);
  const asking = all.find(({ decision }) => decision === "ask");
  if (!asking) {
    const isGranted = all.some(({ grantId }) => grantId !== undefined);
    return toAdmission(all, { canonicalPaths, ...(isGranted ? { pins } : {}) });
  }
  for (const one of seen) requireKind(one);
  const approvalId = await ask(request, { seen, rule: asking.rule });
  // Who was asked took time: a rule that was made meanwhile holds.
  await judgeAll(request.targets, (target) => target.path, "requested");
  await judgeAll(request.targets, canonicalOf(seen), "canonical");
  return { rule: asking.rule, grantId: undefined, approvalId, pins, canonicalPaths };
}

/** For what policy only may deny: nobody is asked about it. */
export async function admitUnasked(targets: readonly Target[]): Promise<Admission> {
  const requested = await judgeAll(targets, (target) => target.path, "requested");
  for (const target of targets) target.allowWhole();
  return toAdmission(requested, {});
}

interface Seen {
  readonly target: Target;
  readonly canonicalPath: string;
  readonly answer: FilesPreflightResponse;
}

const canonicalOf =
  (seen: readonly Seen[]) =>
  (_: Target, index: number): string =>
    seen[index]?.canonicalPath ?? "";

/** The verdicts on all targets; fails with the first denial. */
async function judgeAll(
  targets: readonly Target[],
  pathOf: (target: Target, index: number) => string,
  stage: FileQuestion["stage"],
): Promise<readonly FileVerdict[]> {
  const verdicts: FileVerdict[] = [];
  for (const [index, target] of targets.entries()) {
    const { question, verdict } = await target.ask(pathOf(target, index), stage);
    const denial = verdict.decision === "deny" ? toDenial(question, verdict) : undefined;
    if (denial) throw denial;
    verdicts.push(verdict);
  }
  return verdicts;
}

function toAdmission(
  verdicts: readonly FileVerdict[],
  more: Partial<Pick<Admission, "pins" | "canonicalPaths">>,
): Admission {
  const decisive = verdicts.find(({ grantId }) => grantId !== undefined) ?? verdicts[0];
  return {
    rule: decisive?.rule ?? "default",
    grantId: decisive?.grantId,
    approvalId: undefined,
    pins: [],
    canonicalPaths: [],
    ...more,
  };
}

/** What a node is asked to look at before something is done with a path. */
export const operationOfVerb: Readonly<Record<FileVerb, FileOperation>> = {
  list: FileOperation.READ,
  read: FileOperation.READ,
  write: FileOperation.WRITE,
  remove: FileOperation.REMOVE,
  move: FileOperation.MOVE,
  mkdir: FileOperation.MAKE_FOLDER,
};

/** What a change leads to, and its policy on that: `POLICY_DENIED` before anything is done. */
export async function judgeBefore(target: Target): Promise<string> {
  const { canonicalPath } = await lookAt(target, false);
  await target.judge(canonicalPath);
  return canonicalPath;
}

/** Entries that one page of a listing holds at the most. */
const pageEntries = 10_000;

/** All that would be taken along must be allowed to: `POLICY_DENIED` names the rule that keeps one of it. */
export async function judgeBelow(target: Target): Promise<void> {
  let cursor = "";
  do {
    const asked = { path: target.path, recursive: true, limit: pageEntries, cursor };
    const page = await listBelow(target, asked);
    for (const { path } of [...(page?.entries ?? []), ...(page?.problems ?? [])]) await target.judge(path);
    cursor = page?.nextCursor ?? "";
  } while (cursor !== "");
}

/** Undefined for what is no folder: nothing lies below it. */
async function listBelow(
  target: Target,
  asked: {
    readonly path: string;
    readonly recursive: boolean;
    readonly limit: number;
    readonly cursor: string;
  },
): Promise<FilesListResponse | undefined> {
  try {
    return await target.handle.files.list(asked, callOptions(target.context));
  } catch (error) {
    const hasNothingBelow = isFault(error, "NOT_A_DIRECTORY") || isFault(error, "NOT_FOUND");
    if (hasNothingBelow || isFault(error, "SYMLINK_REFUSED")) return undefined;
    throw error;
  }
}

const look = (target: Target): Promise<Seen> => lookAt(target, target.kind.endsWith("_tree"));

async function lookAt(target: Target, countBelow: boolean): Promise<Seen> {
  const { kind, verb, path, extent, isBootstrap } = target;
  const operation = kind === "write_tree" ? FileOperation.WRITE_TREE : operationOfVerb[verb];
  const bootstrap = isBootstrap && operation === FileOperation.READ;
  const request = { path, operation, countBelow, bootstrap, ...(extent ? { extent } : {}) };
  const answer = await target.handle.files.preflight(request, callOptions(target.context));
  return { target, canonicalPath: toSource(target, answer.source).canonicalPath, answer };
}

const aFile = new Set<FileKind>(["read", "write"]);
const aFolder = new Set<FileKind>(["list", "list_tree", "read_tree", "write_tree", "watch_tree"]);

/** Nobody is asked about what cannot be done: a folder is not read as a file, nor a file as a folder. */
function requireKind({ target: { kind, path }, answer: { entry } }: Seen): void {
  if (aFile.has(kind) && entry?.kind === EntryKind.FOLDER) {
    throw new Fault("NOT_A_FILE", `${path === "" ? "the workspace's root" : path} is a folder`, {
      details: { path },
    });
  }
  if (aFolder.has(kind) && entry?.kind === EntryKind.FILE)
    throw new Fault("NOT_A_DIRECTORY", `${path} is no folder`, { details: { path } });
}

interface Asking {
  readonly seen: readonly Seen[];
  readonly rule: string;
}

async function ask(request: AdmissionRequest, { seen, rule }: Asking): Promise<string> {
  const { actor, people, terms } = request;
  const [first] = seen;
  if (!first || !people) {
    throw new Fault("APPROVAL_DENIED", "nobody can be asked here", { details: { reason: "no_route", rule } });
  }
  const { node, kind, handle, path, context } = first.target;
  const shown = {
    operation: kind,
    agent: actor.agent,
    ...(actor.sessionId === undefined ? {} : { session: actor.sessionId }),
    ...(actor.tool === undefined ? {} : { tool: actor.tool }),
    node: node.alias,
    nodeId: node.id,
    workspace: handle.workspace,
    ...showTarget(first),
    ...(seen[1] ? { to: showTarget(seen[1]) } : {}),
    ...terms,
  };
  return await people.ask(
    {
      actor,
      nodeId: node.id,
      title: `${actor.agent}: ${kind.replace("_", " ")} ${node.alias}:/${handle.workspace}/${path}`,
      shown,
      covers: seen.map(({ answer }) => answer.identity),
      rule,
      // What is asked each time is not to be granted, and who moves something moves it once.
      mayGrant: kind !== "move" && !rule.endsWith(" ask always"),
    },
    { context, noWait: request.noWait },
  );
}

const kindWords: Readonly<Record<number, string>> = {
  [EntryKind.FILE]: "file",
  [EntryKind.FOLDER]: "folder",
  [EntryKind.LINK]: "link",
};

function showTarget({ target, canonicalPath, answer }: Seen): { readonly [name: string]: JsonValue } {
  const { entry } = answer;
  return {
    path: target.path,
    canonicalPath,
    stands: entry ? (kindWords[entry.kind] ?? "other") : "nothing",
    ...(entry?.kind === EntryKind.FILE ? { sizeBytes: Number(entry.sizeBytes) } : {}),
    ...(entry?.kind === EntryKind.FOLDER && target.kind.endsWith("_tree")
      ? { entriesBelow: Number(answer.below) }
      : {}),
  };
}
