import type { Digest } from "../../../shared/content/digest.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { toFaultJson, type JsonValue } from "../../../shared/fault/fault.ts";
import type { Files, Source } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { maxDeadlineMs } from "../../../shared/rpc/deadline.ts";
import type { CallOptions, Client } from "../../../shared/rpc/service.ts";
import { startProgress } from "../../../shared/terminal/progress.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import type { TreeProblem } from "../../../shared/tree/tree-part.ts";
import { goOn, type GoOnOptions, openLine } from "./go-on.ts";
import { sourceToJson } from "./remote.ts";
import { startStallGuard, type StallGuard } from "./stall-guard.ts";

/** Many entries mostly fail for one reason: so many different hints are shown. */
const maxHints = 3;

/** What `get`, `put` and `sync` work with. */
export interface Transfer {
  /** The node's files, over the connection there is now. */
  readonly files: Client<typeof Files>;
  /**
   * For every call of the transfer: ends when it stalls, is interrupted, or its deadline passes. While a call has not been
   * taken on, which may need a person, nothing counts as stalled.
   */
  readonly call: CallOptions;
  readonly signal: AbortSignal;
  /** Whether a person ended it: then nothing is left of it. */
  readonly isInterrupted: () => boolean;
  /** So many bytes moved. */
  readonly onBytes: (bytes: number) => void;
  /** So many bytes need not move, since they were there. */
  readonly onReused: (bytes: number) => void;
  /** How many there will be, once that is known. */
  readonly onTotal: (bytes: number) => void;
  /** How many moved so far. */
  readonly movedBytes: number;
  /** Of files that moved in part: how many need not. */
  readonly reusedBytes: number;
  /**
   * Does `attempt`, and does it again when node or gateway was lost in the middle of it, once the workspace can be used
   * again: what stalls for too long ends the transfer. Before the first byte a loss is reported at once.
   */
  goOn<T>(workspace: string, attempt: () => Promise<T>, options?: GoOnTransfer): Promise<T>;
}

/** What `Transfer.goOn` takes besides the attempt. */
export type GoOnTransfer = Pick<GoOnOptions, "comparesAgain">;

/** What travelled. */
export interface TransferCounts {
  readonly files: number;
  readonly folders: number;
  readonly links: number;
  readonly bytes: number;
  /** Of the files: those that were there with this content already. */
  readonly unchanged?: number;
  /** Of the files: those whose content did not travel. */
  readonly filesReused?: number;
  /** Of the bytes: those that did not travel. */
  readonly bytesReused?: number;
  readonly failed: readonly TreeProblem[];
  /** All that failed, also those that are not named. */
  readonly failedCount: number;
  /** What was done at the target, or would be: of a sync. */
  readonly changes?: readonly TransferChange[];
  /** Paths that only the target has changed, and that were left alone: of a sync. */
  readonly kept?: readonly string[];
  /** Of a single file. */
  readonly digest?: Digest | undefined;
  readonly source?: Source | undefined;
}

/** One thing that a sync does at the target. */
export interface TransferChange {
  readonly action: "create" | "change" | "mode" | "remove";
  readonly path: string;
}

/** What was transferred from where to where. */
export interface TransferEnds {
  readonly from: string;
  readonly to: string;
}

/** Runs one transfer against the gateway, shows its progress, prints its result and gives the exit status. */
export async function runTransfer(
  runtime: Runtime,
  label: string,
  work: (transfer: Transfer) => Promise<TransferCounts & TransferEnds>,
): Promise<number> {
  const startedAt = runtime.clock.now();
  const result = await transferOnce(runtime, label, work);
  const timed = { ...result, durationMs: runtime.clock.now() - startedAt };
  await runtime.output.result(toJson(timed), () => toLines(timed));
  if (!runtime.output.json) noteFailed(runtime, timed);
  return result.failedCount > 0 ? 7 : 0;
}

/** One of several transfers. */
export interface TransferWork {
  readonly from: string;
  readonly label: string;
  readonly work: (transfer: Transfer) => Promise<TransferCounts & TransferEnds>;
}

/**
 * Runs transfers one after the other and prints one result of all. One that fails does not stop the rest, unless the
 * command was interrupted; it is listed, and the status is then 7.
 */
export async function runTransfers(runtime: Runtime, works: readonly TransferWork[]): Promise<number> {
  const items: JsonValue[] = [];
  let failedCount = 0;
  for (const { from, label, work } of works) {
    const startedAt = runtime.clock.now();
    try {
      const result = await transferOnce(runtime, label, work);
      const timed = { ...result, durationMs: runtime.clock.now() - startedAt };
      items.push(toJson(timed));
      if (result.failedCount > 0) failedCount += 1;
      if (runtime.output.json) continue;
      await runtime.output.text(`${toLines(timed).join("\n")}\n`);
      noteFailed(runtime, timed);
    } catch (error) {
      runtime.signal.throwIfAborted();
      const fault = faultFromError(error);
      failedCount += 1;
      items.push({ from, error: { ...toFaultJson(fault) } });
      if (runtime.output.json) continue;
      runtime.output.note(`failed: ${from}: ${fault.message} (${fault.code})`);
      if (fault.hint !== undefined) runtime.output.note(`hint: ${fault.hint}`);
    }
  }
  if (runtime.output.json) await runtime.output.result({ items, failedCount }, () => []);
  return failedCount > 0 ? 7 : 0;
}

async function transferOnce(
  runtime: Runtime,
  label: string,
  work: (transfer: Transfer) => Promise<TransferCounts & TransferEnds>,
): Promise<TransferCounts & TransferEnds> {
  await using line = await openLine(runtime);
  await using progress = await startProgress(runtime.output, { label });
  await using guard = startStallGuard(runtime.clock, runtime.signal);
  const { signal } = guard;
  const call = { signal, deadlineMs: runtime.deadlineMs ?? maxDeadlineMs };
  let movedBytes = 0;
  let reusedBytes = 0;
  return await work({
    get files() {
      return guarded(line.files, guard);
    },
    call,
    signal,
    isInterrupted: () => runtime.signal.aborted,
    onBytes: (bytes) => {
      movedBytes += bytes;
      guard.moved();
      progress.advance(bytes);
    },
    onReused: (bytes) => {
      reusedBytes += bytes;
      guard.moved();
      progress.advance(bytes);
    },
    onTotal: (bytes) => progress.total(bytes),
    get movedBytes() {
      return movedBytes;
    },
    get reusedBytes() {
      return reusedBytes;
    },
    goOn: (workspace, attempt, options) =>
      goOn(attempt, {
        ...options,
        workspace,
        line,
        call,
        clock: runtime.clock,
        hasMoved: () => movedBytes + reusedBytes > 0,
        onLost: (fault) => runtime.output.note(`note: ${fault.message}; waiting for it`),
      }),
  });
}

/** The same files: what a call waits for before it is taken on, as for a person, is no stall. */
function guarded(files: Transfer["files"], guard: StallGuard): Transfer["files"] {
  const taking =
    <R, A>(method: (request: R, options?: CallOptions) => A) =>
    (request: R, options?: CallOptions): A =>
      method(request, { ...options, onTaken: guard.pause() });
  return {
    ...files,
    stat: taking(files.stat),
    list: taking(files.list),
    read: taking(files.read),
    readTree: taking(files.readTree),
    manifest: taking(files.manifest),
    write: taking(files.write),
    writeTree: taking(files.writeTree),
    remove: taking(files.remove),
  };
}

type TimedResult = TransferCounts & TransferEnds & { readonly durationMs: number };

function toJson(result: TimedResult): JsonValue & { readonly [key: string]: JsonValue } {
  const { files, folders, links, bytes, failed, durationMs } = result;
  return {
    from: result.from,
    to: result.to,
    filesSent: files - (result.filesReused ?? 0),
    bytesSent: bytes - (result.bytesReused ?? 0),
    filesReused: result.filesReused ?? 0,
    bytesReused: result.bytesReused ?? 0,
    files,
    folders,
    links,
    bytes,
    unchanged: result.unchanged ?? 0,
    ...(result.changes === undefined ? {} : { changes: result.changes.map((change) => ({ ...change })) }),
    ...(result.kept === undefined ? {} : { kept: [...result.kept] }),
    failed: failed.map(failedToJson),
    failedCount: result.failedCount,
    durationMs: Math.round(durationMs),
    ...(result.digest === undefined ? {} : { digest: result.digest }),
    source: sourceToJson(result.source),
  };
}

function toLines(result: TimedResult): readonly string[] {
  return [
    ...(result.changes ?? []).map(({ action, path }) => `${changeSigns[action]} ${path}`),
    `${result.from} -> ${result.to}: ${describe(result)} in ${(result.durationMs / 1000).toFixed(1)} s`,
  ];
}

function noteFailed(runtime: Runtime, result: TransferCounts): void {
  const { failed } = result;
  for (const { path, fault } of failed)
    runtime.output.note(`failed: ${path}: ${fault.message} (${fault.code})`);
  if (result.failedCount > failed.length)
    runtime.output.note(`failed: ${result.failedCount - failed.length} more, which are not named`);
  const hints = new Set(failed.flatMap(({ fault }) => fault.hint ?? []));
  for (const hint of [...hints].slice(0, maxHints)) runtime.output.note(`hint: ${hint}`);
}

const changeSigns = { create: "+", change: "~", mode: "m", remove: "-" } as const;

function failedToJson({ path, fault }: TreeProblem): JsonValue {
  return { path, ...toFaultJson(fault) };
}

function describe(counts: TransferCounts): string {
  if (counts.changes) return describeSync(counts);
  const { files, folders, links, bytes, unchanged = 0, failedCount } = counts;
  const same = unchanged > 0 ? ` (${unchanged} unchanged)` : "";
  const parts = [
    `${count(files, "file")}${same}`,
    ...(folders > 0 ? [count(folders, "folder")] : []),
    ...(links > 0 ? [count(links, "link")] : []),
    `${bytes} bytes`,
    ...(failedCount > 0 ? [`${failedCount} failed`] : []),
  ];
  return parts.join(", ");
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function describeSync(counts: TransferCounts): string {
  const { files, bytes, filesReused = 0, bytesReused = 0, kept = [], failedCount } = counts;
  const parts = [
    `${count(files - filesReused, "file")} and ${bytes - bytesReused} bytes sent`,
    `${count(filesReused, "file")} and ${bytesReused} bytes reused`,
    ...(kept.length > 0 ? [`${kept.length} changed at the target only and left`] : []),
    ...(failedCount > 0 ? [`${failedCount} failed`] : []),
  ];
  return parts.join(", ");
}
