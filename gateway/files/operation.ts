import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, findFault, isFault, type JsonValue } from "../../shared/fault/fault.ts";
import type { Source, TreeExtent } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import {
  admit,
  admitUnasked,
  judgeBefore,
  judgeBelow,
  type Admission,
  type AdmittedPin,
} from "./admission.ts";
import { noWaitHeader } from "./asking-headers.ts";
import type { FileActor, FileKind, FilePeople, FileVerb } from "./file-question.ts";
import type { BegunRecord, FileRecorder } from "./file-record.ts";
import { toEntry, type OperationFacts } from "./operation-entry.ts";
import { findPlace, openTarget, toSource, type Target, type TargetOptions } from "./target.ts";

/** What operations stand on. */
export interface OperationOptions extends TargetOptions {
  readonly clock: Clock;
  /** Who a call acts for. */
  readonly actorOf: (context: CallContext) => FileActor;
  /** Absent: nobody can be asked. */
  readonly people?: FilePeople;
  /** Absent: nothing is recorded. */
  readonly recorder?: FileRecorder;
  /** Calls `listener` after each change of policy or grants, until it is disposed. */
  readonly onPolicyChange?: (listener: () => void) => Disposable;
}

/** One operation on files, as a caller asks for it. */
export interface OperationRequest {
  /** `NODE:/NAME`. */
  readonly workspace: string;
  readonly path: string;
  readonly verb: FileVerb;
  readonly kind: FileKind;
  /** The name of the path's field in faults; `path` by default. */
  readonly field?: string;
  /** Of a move: where it goes. */
  readonly to?: string;
  /** Fails for arguments that are none: before anybody is asked, policy too. Its path is that of the request. */
  readonly check?: (path: WorkspacePath) => void;
  /** What else the answer of a person covers. */
  readonly terms?: { readonly [name: string]: JsonValue };
  /** Of a tree that is written: how large it is said to be. */
  readonly extent?: TreeExtent | undefined;
  /** Whether it is read through the bootstrap view. */
  readonly isBootstrap?: boolean;
  /** Whether its input comes as a stream, so that it cannot be done again under another approval. */
  readonly takesStream?: true;
  /** Whether it fails where a person would have to be asked. */
  readonly askNobody?: boolean;
  /** Whether it only helps another operation, which is asked about itself: policy may deny it, and asks nobody. */
  readonly isHelp?: true;
}

/** An operation that may be done now. */
export interface Operation {
  readonly target: Target;
  /** Of a move: where it goes. */
  readonly to: Target | undefined;
  /** Ends with the caller, and when policy forbids the operation while it runs. */
  readonly context: CallContext;
  /** What the node must find at the target, and at where it goes. */
  readonly pin: AdmittedPin | undefined;
  readonly toPin: AdmittedPin | undefined;
  /** What the target leads to, where that was looked at: always before a change. */
  readonly canonicalPath: string | undefined;
  /** The source of an answer, completed, judged by policy and kept for the record. */
  judged(source: Source | undefined): Promise<Source>;
  /** The source of the answer to a change, completed and kept for the record. */
  made(source: Source | undefined): Source;
  /** What is told of the content in the record. */
  tell(content: { readonly sizeBytes?: bigint | undefined; readonly digest?: string | undefined }): void;
}

const changing = new Set<FileVerb>(["write", "remove", "move", "mkdir"]);

/** Runs one operation: admitted, done, recorded. Under an approval whose target was swapped it is asked about anew. */
export async function perform<A>(
  options: OperationOptions,
  request: OperationRequest & { readonly context: CallContext },
  work: (operation: Operation) => Promise<A>,
): Promise<A> {
  await using run = new Run(options, request);
  return await run.whole(async () => {
    for (let tries = 1; ; tries += 1) {
      const operation = await run.admit();
      try {
        return await work(operation);
      } catch (error) {
        await run.askAnew(error, tries);
      }
    }
  });
}

/** As `perform`, for an operation whose answers come as a stream. */
export async function* performStream<A>(
  options: OperationOptions,
  request: OperationRequest & { readonly context: CallContext },
  work: (operation: Operation) => AsyncIterable<A>,
): AsyncGenerator<A, void> {
  await using run = new Run(options, request);
  let hasBegun = false;
  try {
    for (let tries = 1; ; tries += 1) {
      const operation = await run.admit();
      try {
        for await (const answer of work(operation)) {
          hasBegun = true;
          yield answer;
        }
        break;
      } catch (error) {
        if (hasBegun) throw error;
        await run.askAnew(error, tries);
      }
    }
    await run.end(undefined);
  } catch (error) {
    throw await run.end(error);
  }
}

/** How often something that was swapped under an approval is asked about within one call. */
const maxAsks = 3;

class Run implements AsyncDisposable {
  readonly #options: OperationOptions;
  readonly #request: OperationRequest & { readonly context: CallContext };
  readonly #actor: FileActor;
  readonly #startedAt: number;
  readonly #forbidden = new AbortController();
  readonly #context: CallContext;
  #facts: OperationFacts;
  #targets: readonly Target[] = [];
  #admission: Admission | undefined;
  #begun: BegunRecord | undefined;
  #watch: Disposable | undefined;
  #hasEnded = false;

  constructor(options: OperationOptions, request: OperationRequest & { readonly context: CallContext }) {
    this.#options = options;
    this.#request = request;
    const { context } = request;
    this.#actor = options.actorOf(context);
    this.#startedAt = options.clock.now();
    this.#context = { ...context, signal: AbortSignal.any([context.signal, this.#forbidden.signal]) };
    this.#facts = { actor: this.#actor, request, callId: context.callId };
  }

  /** Runs `work` and records how it ended. */
  async whole<A>(work: () => Promise<A>): Promise<A> {
    let answer: A;
    try {
      answer = await work();
    } catch (error) {
      throw await this.end(error);
    }
    await this.end(undefined);
    return answer;
  }

  async admit(): Promise<Operation> {
    if (this.#targets.length === 0) this.#targets = await this.#open();
    const admission = await this.#judge();
    this.#admission = admission;
    const { rule, grantId, approvalId, pins, canonicalPaths } = admission;
    if (pins.length > 0) for (const target of this.#targets) target.allowWhole();
    const [canonicalPath, toCanonicalPath] = canonicalPaths;
    this.#facts = { ...this.#facts, rule, grantId, approvalId, canonicalPath, toCanonicalPath };
    this.#watch ??= this.#options.onPolicyChange?.(() => void this.#judgeAgain());
    await this.#begin();
    this.#context.take?.();
    return this.#toOperation(admission);
  }

  async #judge(): Promise<Admission> {
    const { context, isHelp } = this.#request;
    if (isHelp === true) return await admitUnasked(this.#targets);
    return await admit({
      targets: this.#targets,
      actor: this.#actor,
      terms: this.#request.terms ?? {},
      noWait: context.metadata.get(noWaitHeader) === "1",
      people: this.#request.askNobody === true ? undefined : this.#options.people,
    });
  }

  async #open(): Promise<readonly Target[]> {
    const { workspace, path, to, field, verb, kind, extent, isBootstrap } = this.#request;
    const named = [
      { path, field: field ?? "path" },
      ...(to === undefined ? [] : [{ path: to, field: "to" }]),
    ];
    const places = [];
    for (const one of named) places.push(await findPlace(this.#options, { workspace, ...one }));
    const [place] = places;
    if (place) this.#request.check?.(place.path);
    if (place) this.#facts = { ...this.#facts, node: place.node };
    const use = { verb, kind, extent, isBootstrap, context: this.#context };
    return await Promise.all(places.map((one) => openTarget(this.#options, one, use)));
  }

  /** Before a change: what it leads to is judged, and there is room for its record. */
  async #begin(): Promise<void> {
    if (!changing.has(this.#request.verb) || this.#request.kind === "find_part") return;
    if (this.#facts.canonicalPath === undefined) {
      const [canonicalPath, toCanonicalPath] = await Promise.all(this.#targets.map(judgeBefore));
      this.#facts = { ...this.#facts, canonicalPath, toCanonicalPath };
    }
    const [source] = this.#targets;
    const takesAlong = this.#request.kind === "remove_tree" || this.#request.kind === "move";
    if (source && takesAlong && this.#facts.rule !== "default") await judgeBelow(source);
    this.#begun ??= await this.#options.recorder?.begin(this.#entry("OUTCOME_UNKNOWN"));
    this.#context.signal.throwIfAborted();
  }

  #toOperation({ pins }: Admission): Operation {
    const [target, to] = this.#targets;
    if (!target) throw new Error("an operation without a target");
    const made = (source: Source | undefined): Source => {
      const whole = toSource(target, source);
      const isMove = this.#request.to !== undefined;
      const { canonicalPath } = whole;
      this.#facts = { ...this.#facts, ...(isMove ? { toCanonicalPath: canonicalPath } : { canonicalPath }) };
      return whole;
    };
    return {
      target,
      to,
      context: this.#context,
      pin: pins[0],
      toPin: pins[1],
      canonicalPath: this.#facts.canonicalPath,
      made,
      judged: async (source) => {
        const whole = made(source);
        await target.judge(whole.canonicalPath);
        return whole;
      },
      tell: (content) => {
        this.#facts = { ...this.#facts, ...content };
      },
    };
  }

  /** After a change of policy: what runs and is not allowed any more ends. */
  async #judgeAgain(): Promise<void> {
    if (this.#hasEnded) return;
    try {
      const { grantId } = this.#facts;
      const paths = [this.#facts.canonicalPath, this.#facts.toCanonicalPath];
      for (const [index, target] of this.#targets.entries()) {
        const canonicalPath = paths[index];
        const judged = [await target.ask(target.path, "requested")];
        if (canonicalPath !== undefined) judged.push(await target.ask(canonicalPath, "canonical"));
        for (const { question, verdict } of judged) {
          const isGone = grantId !== undefined && verdict.decision === "ask";
          if (verdict.decision !== "deny" && !isGone) continue;
          this.#facts = { ...this.#facts, rule: verdict.rule, forbidden: true };
          this.#forbidden.abort(
            toForbidden(question.path, { rule: verdict.rule, reason: verdict.reason, isGone }),
          );
          return;
        }
      }
    } catch (error) {
      // Rules that cannot be asked allow nothing.
      this.#forbidden.abort(faultFromError(error));
    }
  }

  /** Goes on when the target of an approval was swapped: it is asked about as it is now. Else it fails with `error`. */
  async askAnew(error: unknown, tries: number): Promise<void> {
    const isPinned = (this.#admission?.pins.length ?? 0) > 0;
    if (!isPinned || !isFault(error, "PATH_CHANGED") || tries >= maxAsks) throw error;
    if (this.#request.takesStream !== true) return;
    // What was sent cannot be sent again: the new question stays open for a repeat of the command.
    await admit({
      targets: this.#targets,
      actor: this.#actor,
      terms: this.#request.terms ?? {},
      noWait: true,
      people: this.#options.people,
    });
    throw error;
  }

  /** Records the end, keeps what it allowed for later, and gives the fault that the caller sees. */
  async end(error: unknown): Promise<unknown> {
    if (this.#hasEnded) return error;
    this.#hasEnded = true;
    this.#watch?.[Symbol.dispose]();
    const fault = error === undefined ? undefined : this.#toFault(error);
    const entry = this.#entry(fault?.code ?? "ok", fault);
    try {
      if (this.#begun) await this.#begun.end(entry);
      else await this.#options.recorder?.record(entry);
    } catch (unrecorded) {
      // What was refused for want of a record is told as that; what was done and has none fails.
      if (!fault) throw unrecorded;
    }
    if (!fault) await this.#keepGrant();
    return fault;
  }

  #toFault(error: unknown): Fault {
    const { signal } = this.#forbidden;
    if (signal.aborted && !isFault(error, "OUTCOME_UNKNOWN"))
      return findFault(signal.reason) ?? faultFromError(error);
    return faultFromError(error);
  }

  async #keepGrant(): Promise<void> {
    const [target] = this.#targets;
    const { approvalId, canonicalPaths = [] } = this.#admission ?? {};
    const [canonicalPath] = canonicalPaths;
    if (!target || approvalId === undefined || canonicalPath === undefined) return;
    await this.#options.people?.keepGrant(approvalId, {
      actor: this.#actor,
      nodeId: target.node.id,
      workspace: target.handle.workspace,
      kind: target.kind,
      requestedPath: target.path,
      canonicalPath,
    });
  }

  #entry(outcome: string, fault?: Fault): ReturnType<typeof toEntry> {
    const durationMs = this.#options.clock.now() - this.#startedAt;
    return toEntry(this.#facts, { outcome, fault, durationMs });
  }

  /** Left before its end: the caller has gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return;
    const { signal } = this.#context;
    const reason: unknown = signal.aborted ? signal.reason : undefined;
    await this.end(findFault(reason) ?? new Fault("CANCELLED", "the caller has left"));
  }
}

interface Forbidden {
  readonly rule: string;
  readonly reason: string | undefined;
  readonly isGone: boolean;
}

function toForbidden(path: string, { rule, reason, isGone }: Forbidden): Fault {
  const why = isGone
    ? "the grant that allowed it has ended"
    : (reason ?? "policy does not allow it any more");
  return new Fault("POLICY_DENIED", why, {
    hint: "look at it with fairlead policy explain",
    details: { rule, side: "gateway", path },
  });
}
