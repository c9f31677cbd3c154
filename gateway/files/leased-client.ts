import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type {
  Files,
  FilesWriteRequestSchema,
  FilesWriteTreeRequestSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import type { Lease } from "../../shared/lifetime/lease.ts";
import type { CallOptions, Client } from "../../shared/rpc/service.ts";

/** How long a write that was sent whole may still answer once the lease has ended, in milliseconds. */
export const lateAnswerMs = 5_000;

/** What a leased client stands on. */
export interface LeasedClientOptions {
  readonly lease: Lease;
  /** The export's name and the node's number of its registration, put into every request. */
  readonly place: ExportPlace;
  /** The client of the node's present link; fails with `NODE_OFFLINE` when there is none. */
  readonly client: () => Client<typeof Files>;
  readonly clock: Clock;
  /** The fault for a node that cannot be reached. */
  readonly offline: (cause: unknown) => Fault;
}

/** Which export of a node, in which of its registrations. */
export interface ExportPlace {
  readonly workspace: string;
  readonly leaseEpoch: bigint;
}

type WriteRequest = MessageInitShape<typeof FilesWriteRequestSchema>;
type WriteTreeRequest = MessageInitShape<typeof FilesWriteTreeRequestSchema>;

/**
 * The node's `Files` under a lease: it is checked before and after every wait, its end aborts what runs, and a result
 * that comes later is refused. A write that took effect before the lease's end says so in `details.publication`.
 */
export function createLeasedClient(options: LeasedClientOptions): Client<typeof Files> {
  const { place } = options;
  const unary = <Q extends object, A>(
    call: (client: Client<typeof Files>) => (request: Q, more?: CallOptions) => Promise<A>,
  ) => {
    return (request: Q, more: CallOptions = {}): Promise<A> =>
      underLease(options, more, (signal) =>
        call(options.client())({ ...request, ...place }, { ...more, signal }),
      );
  };
  return {
    listExports: unary((client) => client.listExports),
    stat: unary((client) => client.stat),
    list: unary((client) => client.list),
    remove: unary((client) => client.remove),
    move: unary((client) => client.move),
    makeFolder: unary((client) => client.makeFolder),
    findPart: unary((client) => client.findPart),
    dropPart: unary((client) => client.dropPart),
    preflight: unary((client) => client.preflight),
    read: (request, more = {}) =>
      streamUnderLease(options, more, (signal) =>
        options.client().read({ ...request, ...place }, { ...more, signal }),
      ),
    listChunks: (request, more = {}) =>
      streamUnderLease(options, more, (signal) =>
        options.client().listChunks({ ...request, ...place }, { ...more, signal }),
      ),
    readTree: (request, more = {}) =>
      streamUnderLease(options, more, (signal) =>
        options.client().readTree({ ...request, ...place }, { ...more, signal }),
      ),
    barrier: unary((client) => client.barrier),
    watch: (request, more = {}) =>
      streamUnderLease(options, more, (signal) =>
        options.client().watch({ ...request, ...place }, { ...more, signal }),
      ),
    manifest: (request, more = {}) =>
      streamUnderLease(options, more, (signal) =>
        options.client().manifest({ ...request, ...place }, { ...more, signal }),
      ),
    write: (requests, more = {}) =>
      writeUnderLease(options, { ...more, isTree: false }, (state) => {
        const renamed = renameWrite(watchInput(requests, options.lease, state), place);
        return options.client().write(renamed, { ...more, signal: state.signal });
      }),
    writeTree: (requests, more = {}) =>
      writeUnderLease(options, { ...more, isTree: true }, (state) => {
        const renamed = renameWriteTree(watchInput(requests, options.lease, state), place);
        return options.client().writeTree(renamed, { ...more, signal: state.signal });
      }),
  };
}

/** The fault a caller sees: the lease's own once it has ended, and an offline node as the workspace's state. */
function toCallerError(options: LeasedClientOptions, error: unknown): unknown {
  if (!options.lease.isActive) return endOf(options.lease);
  if (!isFault(error, "NODE_OFFLINE")) return error;
  const { publication } = error.details;
  const offline = options.offline(error);
  return publication === undefined ? offline : offline.with({ details: { publication } });
}

/** What a call gets that ran when the lease ended; one that a revocation ended says so. */
function endOf({ signal }: Lease): unknown {
  const reason: unknown = signal.reason;
  if (!isFault(reason) || reason.details["reason"] !== "revoked") return reason;
  return new Fault("IDENTITY_REVOKED", "the node was revoked while the call ran", {
    details: reason.details,
    cause: reason,
    ...(reason.hint === undefined ? {} : { hint: reason.hint }),
  });
}

function anySignal(lease: Lease, outer: AbortSignal | undefined): AbortSignal {
  return outer ? AbortSignal.any([lease.signal, outer]) : lease.signal;
}

async function underLease<A>(
  options: LeasedClientOptions,
  more: CallOptions,
  call: (signal: AbortSignal) => Promise<A>,
): Promise<A> {
  options.lease.check();
  try {
    const answer = await call(anySignal(options.lease, more.signal));
    options.lease.check();
    return answer;
  } catch (error) {
    throw toCallerError(options, error);
  }
}

async function* streamUnderLease<A>(
  options: LeasedClientOptions,
  more: CallOptions,
  call: (signal: AbortSignal) => AsyncIterable<A>,
): AsyncIterable<A> {
  options.lease.check();
  try {
    for await (const part of call(anySignal(options.lease, more.signal))) {
      options.lease.check();
      yield part;
    }
    options.lease.check();
  } catch (error) {
    throw toCallerError(options, error);
  }
}

interface WriteState {
  readonly signal: AbortSignal;
  readonly isTree: boolean;
  /** Whether everything was handed over, so that the node may publish. */
  isSent: boolean;
}

/** A file whose end was never sent has not been published, whatever became of its node; of a tree some files may be. */
function withPublication(error: unknown, { isSent, isTree }: WriteState): unknown {
  if (!isFault(error) || isSent || isTree) return error;
  if (error.code !== "OUTCOME_UNKNOWN" && error.code !== "NODE_OFFLINE") return error;
  return new Fault("NODE_OFFLINE", error.message, {
    details: { ...error.details, publication: "unattempted" },
    cause: error,
  });
}

/**
 * A write that is still being sent ends with the lease. One that was sent whole may have taken effect: its answer is
 * awaited for a short time, so that the caller hears `committed` instead of a guess.
 */
async function writeUnderLease<A>(
  options: LeasedClientOptions,
  { isTree, ...more }: CallOptions & { readonly isTree: boolean },
  call: (state: WriteState) => Promise<A>,
): Promise<A> {
  const { lease, clock } = options;
  lease.check();
  const end = new AbortController();
  const state: WriteState = {
    signal: more.signal ? AbortSignal.any([end.signal, more.signal]) : end.signal,
    isTree,
    isSent: false,
  };
  using late = new DisposableStack();
  const onLeaseEnd = (): void => {
    if (!state.isSent) {
      end.abort(lease.signal.reason);
      return;
    }
    const deadline = late.use(startDeadline({ timeoutMs: lateAnswerMs, clock }));
    deadline.signal.addEventListener("abort", () => end.abort(lease.signal.reason), { once: true });
  };
  lease.signal.addEventListener("abort", onLeaseEnd, { once: true });
  late.defer(() => lease.signal.removeEventListener("abort", onLeaseEnd));
  try {
    const answer = await call(state);
    if (!lease.isActive) throw publishedFault(lease, "committed");
    return answer;
  } catch (error) {
    if (lease.isActive) throw toCallerError(options, withPublication(error, state));
    if (isFault(error) && error.details["publication"] === "committed")
      throw publishedFault(lease, "committed");
    throw publishedFault(lease, state.isSent && end.signal.aborted ? "uncertain" : "unattempted");
  }
}

function publishedFault(lease: Lease, publication: string): unknown {
  const reason = endOf(lease);
  return isFault(reason) ? reason.with({ details: { publication } }) : reason;
}

/** With its trailer a write may be published, before anybody asks for what follows. */
function endsWrite(request: WriteRequest | WriteTreeRequest): boolean {
  if ("part" in request) return request.part?.case === "trailer";
  return "treeTrailer" in request && request.treeTrailer !== undefined;
}

async function* watchInput<Q extends WriteRequest | WriteTreeRequest>(
  requests: AsyncIterable<Q>,
  lease: Lease,
  state: WriteState,
): AsyncIterable<Q> {
  for await (const request of requests) {
    lease.check();
    if (endsWrite(request)) state.isSent = true;
    yield request;
  }
  state.isSent = true;
}

async function* renameWrite(
  requests: AsyncIterable<WriteRequest>,
  place: ExportPlace,
): AsyncIterable<WriteRequest> {
  for await (const request of requests) {
    const { part } = request;
    yield part?.case === "header"
      ? { part: { case: "header", value: { ...part.value, ...place } } }
      : request;
  }
}

async function* renameWriteTree(
  requests: AsyncIterable<WriteTreeRequest>,
  place: ExportPlace,
): AsyncIterable<WriteTreeRequest> {
  for await (const request of requests) {
    const { header } = request;
    if (header) yield { ...request, header: { ...header, ...place } } as WriteTreeRequest;
    else yield request;
  }
}
