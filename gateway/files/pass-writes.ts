import { create, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { isFault, Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  PinSchema,
  WritePrecondition,
  type EntryProblem,
  type FilesWriteRequestSchema,
  type FilesWriteResponse,
  type FilesWriteResponseSchema,
  type FilesWriteTreeRequestSchema,
  type FilesWriteTreeResponseSchema,
  type WriteHeader,
  type WriteTreeHeader,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { freeWhenSent } from "../../shared/rpc/chunk-memory.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { AdmittedPin } from "./admission.ts";
import { requireBootstrap } from "./bootstrap-documents.ts";
import { checkWriting } from "./check-arguments.ts";
import type { FilesFaceOptions } from "./face.ts";
import { perform, type Operation } from "./operation.ts";
import { below, flawOf, remember, toProblem } from "./pass-reads.ts";
import { streamOptions, transferOptions, type Target } from "./target.ts";
import { createTreeFilter, type TreeFilter } from "./tree-filter.ts";

type WriteRequest = MessageShape<typeof FilesWriteRequestSchema>;
type WriteTreeRequest = MessageShape<typeof FilesWriteTreeRequestSchema>;

const conditionWords: Readonly<Record<number, string>> = {
  [WritePrecondition.UNSPECIFIED]: "default",
  [WritePrecondition.ABSENT]: "absent",
  [WritePrecondition.MATCH]: "match",
  [WritePrecondition.ANY]: "any",
};

/** Most problems that the answer of a tree names. */
const maxProblems = 10_000;

/** Passes a write on as it streams. Without a condition it holds for what the user last read. */
export async function passWrite(
  options: FilesFaceOptions,
  requests: AsyncIterable<WriteRequest>,
  context: CallContext,
): Promise<MessageInitShape<typeof FilesWriteResponseSchema>> {
  await using input = openInput(requests);
  const first = (await input.first()).part;
  if (first.case !== "header") throw headerMissing();
  const header = first.value;
  const { workspace, path } = header;
  const terms = termsOf(header);
  const check = (at: WorkspacePath): void => {
    checkWriting(header);
    if (header.bootstrap) requireBootstrap(options.bootstrap, "write", at);
  };
  const asked = { workspace, path, verb: "write", kind: "write", check, terms, takesStream: true } as const;
  return await perform(options, { ...asked, context }, async (operation) => {
    const { target, pin } = operation;
    const condition = await resolveCondition(options, target, header);
    const named: WriteHeader = { ...header, ...condition, path: target.path, ...pinned(pin) };
    const messages = input.withFirst({ part: { case: "header" as const, value: named } });
    const rest = freedWhenSent(copiesJudged(messages, operation));
    const answer = await sendFile(target, rest, {
      byDefault: header.precondition === WritePrecondition.UNSPECIFIED,
      sizeBytes: header.sizeBytes,
    });
    const source = operation.made(answer.source);
    operation.tell({ sizeBytes: answer.entry?.sizeBytes, digest: answer.entry?.digest });
    await remember(options, target, answer.entry?.digest ?? "");
    return { ...answer, source };
  });
}

/** What a caller may not say: it is the gateway that tells its node what was allowed. */
function pinned(pin: AdmittedPin | undefined): Pick<WriteHeader, "pin"> {
  return pin ? { pin: create(PinSchema, pin) } : { pin: undefined };
}

/** What the answer of a person covers besides the target. */
function termsOf(header: WriteHeader): { readonly [name: string]: JsonValue } {
  const { sizeBytes, precondition, ifMatch, mode, modifiedNs, refuseMissingParents } = header;
  return {
    writesBytes: Number(sizeBytes),
    precondition: conditionWords[precondition] ?? "unknown",
    ...(ifMatch === "" ? {} : { ifMatch }),
    ...(mode === 0 ? {} : { mode: mode.toString(8) }),
    ...(modifiedNs === 0n ? {} : { modifiedNs: modifiedNs.toString() }),
    ...(refuseMissingParents ? { refuseMissingParents } : {}),
    ...(header.bootstrap ? { bootstrap: true } : {}),
  };
}

async function* freedWhenSent<P extends MessageInitShape<typeof FilesWriteRequestSchema>>(
  requests: AsyncIterable<P>,
): AsyncIterable<P> {
  for await (const request of requests) {
    if (request.part?.case === "chunk") freeWhenSent(request.part.value);
    yield request;
  }
}

/** What is copied from the file that is replaced is read: who may only write it learns nothing of it. */
async function* copiesJudged<P extends MessageInitShape<typeof FilesWriteRequestSchema>>(
  requests: AsyncIterable<P>,
  { target, canonicalPath = target.path }: Pick<Operation, "target" | "canonicalPath">,
): AsyncIterable<P> {
  for await (const request of requests) {
    if (request.part?.case === "copy") {
      for (const path of new Set([target.path, canonicalPath])) {
        const fault = await target.denial(path, "read");
        if (fault) throw fault;
      }
    }
    yield request;
  }
}

type Condition = Pick<WriteHeader, "precondition" | "ifMatch" | "orAbsent">;

async function resolveCondition(
  options: FilesFaceOptions,
  target: Target,
  header: WriteHeader,
): Promise<Condition> {
  const { precondition, ifMatch, orAbsent } = header;
  if (precondition !== WritePrecondition.UNSPECIFIED) return { precondition, ifMatch, orAbsent };
  const { node, handle, path, context } = target;
  const known = await options.reads?.find({ nodeId: node.id, workspace: handle.workspace, path, context });
  if (known === undefined) return { precondition: WritePrecondition.ABSENT, ifMatch: "", orAbsent: false };
  // What was read and is gone by now can be lost no more: it is written anew.
  return { precondition: WritePrecondition.MATCH, ifMatch: known, orAbsent: true };
}

async function sendFile(
  target: Target,
  requests: AsyncIterable<MessageInitShape<typeof FilesWriteRequestSchema>>,
  options: { readonly byDefault: boolean; readonly sizeBytes: bigint },
): Promise<FilesWriteResponse> {
  try {
    return await target.handle.files.write(requests, transferOptions(target.context, options.sizeBytes));
  } catch (error) {
    if (options.byDefault && isFault(error)) throw toDefaultConflict(error, target);
    throw error;
  }
}

/** A write that named no condition says what it was compared with, and how to say otherwise. */
function toDefaultConflict(fault: Fault, target: Target): Fault {
  if (fault.code !== "ALREADY_EXISTS" && fault.code !== "CONFLICT") return fault;
  // What was to be gone on with or copied from is another by now: the caller sends all of it.
  const { reason } = fault.details;
  if (reason === "part_changed" || reason === "base_changed") return fault;
  const isKnown = fault.code === "CONFLICT";
  // Only a node that does not know of `orAbsent` says so.
  const isGone = isKnown && fault.details["actual"] === "absent";
  const known = isGone ? "was removed since you last read it" : "changed since you last read it";
  return new Fault("CONFLICT", `${target.path} ${isKnown ? known : "exists, and you never read it"}`, {
    hint: isGone
      ? "write it anew with --if-match absent"
      : "read it first, or say what it must be with --if-match DIGEST, or --if-match any to replace it",
    details: { ...fault.details, path: target.path, reason: isKnown ? "changed" : "never_read" },
    cause: fault,
  });
}

/** Passes a tree on as it streams, without the entries that the gateway's policy denies. */
export async function passWriteTree(
  options: FilesFaceOptions,
  requests: AsyncIterable<WriteTreeRequest>,
  context: CallContext,
): Promise<MessageInitShape<typeof FilesWriteTreeResponseSchema>> {
  await using input = openInput(requests);
  const first = await input.first();
  if (!first.header) throw headerMissing();
  const { header } = first;
  const { workspace, path, strict, precondition, keepEqual, mode, extent } = header;
  const terms = {
    strict,
    precondition: conditionWords[precondition] ?? "unknown",
    ...(keepEqual ? { keepEqual } : {}),
    ...(mode === 0 ? {} : { mode: mode.toString(8) }),
  };
  const asked = {
    workspace,
    path,
    verb: "write",
    kind: "write_tree",
    terms,
    extent,
    takesStream: true,
  } as const;
  return await perform(options, { ...asked, context }, async (operation) => {
    const { target, pin } = operation;
    const denied: EntryProblem[] = [];
    const root = operation.canonicalPath ?? target.path;
    const filter = createTreeFilter({
      denial: (at) => flawOf(at) ?? target.denial(below(root, at)),
      // What is copied is read: a digest alone gives nobody content.
      denialOfCopy: (at) => flawOf(at) ?? target.denial(below(root, at), "read"),
      onDenied: (at, fault) => {
        if (strict) throw fault;
        if (denied.length < maxProblems) denied.push(toProblem(at, fault));
      },
    });
    const named = { ...first, header: { ...byDefault(header), path: target.path, ...pinned(pin) } };
    const answer = await target.handle.files.writeTree(filtered(input.withFirst(named), filter), {
      ...streamOptions(operation.context),
      bulk: true,
    });
    operation.tell({ sizeBytes: answer.stored?.sizeBytes, digest: answer.stored?.digest });
    return {
      ...answer,
      problems: [...answer.problems, ...denied].slice(0, maxProblems),
      source: operation.made(answer.source),
    };
  });
}

/** A tree that names no condition replaces nothing, and takes what is there already as it is. */
function byDefault(header: WriteTreeHeader): WriteTreeHeader {
  if (header.precondition !== WritePrecondition.UNSPECIFIED) return header;
  return { ...header, precondition: WritePrecondition.ABSENT, keepEqual: true };
}

async function* filtered(
  parts: AsyncIterable<WriteTreeRequest>,
  filter: TreeFilter,
): AsyncIterable<WriteTreeRequest> {
  for await (const part of parts) {
    const passed = await filter.pass(part);
    freeWhenSent(passed.content);
    yield passed;
  }
}

function headerMissing(): Fault {
  return new Fault("INVALID_ARGUMENT", "the first message of a write names the target", {
    details: { field: "header" },
  });
}

interface Input<Q> extends AsyncDisposable {
  /** The first message; read once. */
  first(): Promise<Q>;
  /** `first` and then what follows the real first one. */
  withFirst<F>(first: F): AsyncIterable<F | Q>;
}

/** Reads the first message apart; leaving it ends the rest. */
function openInput<Q>(requests: AsyncIterable<Q>): Input<Q> {
  const iterator = requests[Symbol.asyncIterator]();
  return {
    first: async () => {
      const result = await iterator.next();
      if (result.done === true) throw headerMissing();
      return result.value;
    },
    withFirst: async function* (first) {
      yield first;
      for (;;) {
        const result = await iterator.next();
        if (result.done === true) return;
        yield result.value;
      }
    },
    [Symbol.asyncDispose]: async () => {
      await iterator.return?.();
    },
  };
}
