import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../../shared/fault/fault.ts";
import {
  EntryKind,
  type EntryProblem,
  type FilesWriteTreeRequestSchema,
  type FilesWriteTreeResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../../../shared/names/workspace-path.ts";
import type { Entry, HideRule } from "../../../shared/root/root-handle.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import { packTreeParts } from "../../../shared/tree/pack-parts.ts";
import { packTree } from "../../../shared/tree/pack-tree.ts";
import { maxNamedProblems, type TreeProblem } from "../../../shared/tree/tree-part.ts";
import { askExport } from "./ask-export.ts";
import { requireTreeCondition, toWireCondition, type Condition } from "./condition.ts";
import { localName, type LocalPlace } from "./local-place.ts";
import { measureTree } from "./measure-tree.ts";
import { remoteChild, type Remote } from "./remote.ts";
import { storeRest } from "./resume-tree.ts";
import type { Transfer, TransferCounts } from "./transfer.ts";

/** What is put where, and how. */
export interface PutJob {
  readonly runtime: Runtime;
  readonly transfer: Transfer;
  readonly source: LocalPlace;
  readonly remote: Remote;
  readonly condition: Condition;
  readonly strict: boolean;
  /** Files of a tree in work at once. */
  readonly jobs: number;
  /** Of a file: through the bootstrap view. */
  readonly bootstrap: boolean;
}

/** What was put. */
export type PutResult = TransferCounts & { readonly from: string; readonly to: string };

/** Puts a folder: with several jobs over as many streams, each with every folder and its share of the rest. */
export async function putTree(job: PutJob): Promise<PutResult> {
  const { source } = job;
  requireTreeCondition(job.condition);
  const top = await source.root.stat(source.path);
  const remote = job.remote.isFolder ? remoteChild(job.remote, localName(source.shown)) : job.remote;
  const problems = new Problems();
  const extent = await measureTree(source, job.transfer.signal);
  const { acceptsPacked } = await askExport(job.transfer, remote);
  const tree: TreeJob = { ...job, remote, top, extent, problems, acceptsPacked };
  let isCut = false;
  const attempt = async (): Promise<PutResult> => {
    if (isCut) return await sendRest(tree);
    isCut = true;
    return await sendWhole(tree);
  };
  return await job.transfer.goOn(remote.workspace, attempt, { comparesAgain: true });
}

/** After a cut: what is not on the node yet, and then the folders' times. */
async function sendRest(job: TreeJob): Promise<PutResult> {
  const { source, remote, transfer, condition, strict } = job;
  const cut = { transfer, remote, place: source, strict, overwrites: condition.kind === "any" };
  const { counts, problems, source: answered } = await storeRest(cut);
  const quiet = { ...job, problems: new Problems() };
  const { source: stored } = await sendShare(quiet, {
    leave: (_, kind) => kind !== "folder",
    hasTimes: true,
  });
  return {
    from: source.shown,
    to: remote.shown,
    ...counts,
    bytesReused: Math.max(0, counts.bytes - transfer.movedBytes),
    failed: problems,
    failedCount: problems.length,
    source: stored ?? answered,
  };
}

async function sendWhole(tree: TreeJob): Promise<PutResult> {
  const { source, remote, problems } = tree;
  const answers = await sendAll(tree);
  for (const answer of answers) {
    for (const problem of answer.problems) problems.add(problem);
    problems.addUnnamed(Number(answer.stored?.failed ?? 0n) - answer.problems.length);
  }
  const sum = (count: (answer: FilesWriteTreeResponse) => bigint | undefined): number =>
    Number(answers.reduce((total, answer) => total + (count(answer) ?? 0n), 0n));
  return {
    from: source.shown,
    to: remote.shown,
    files: sum(({ stored }) => stored?.files),
    // Each stream stores all of them.
    folders: Number(answers[0]?.stored?.folders ?? 0n),
    links: sum(({ stored }) => stored?.links),
    bytes: sum(({ stored }) => stored?.sizeBytes),
    unchanged: sum(({ unchanged }) => unchanged),
    failed: problems.named,
    failedCount: problems.count,
    source: answers[0]?.source,
  };
}

interface TreeJob extends PutJob {
  /** The folder itself. */
  readonly top: Entry;
  /** How large it is, whatever share of it a stream carries. */
  readonly extent: Awaited<ReturnType<typeof measureTree>>;
  readonly problems: Problems;
  /** Whether the node takes packed trees. */
  readonly acceptsPacked: boolean;
}

/** One stream of a tree. */
interface Share {
  /** What of the tree it leaves to others. */
  readonly leave?: HideRule;
  /** Whether folders get their times: once nothing comes into them any more. */
  readonly hasTimes: boolean;
}

async function sendAll(job: TreeJob): Promise<readonly FilesWriteTreeResponse[]> {
  const { jobs, transfer } = job;
  if (jobs === 1) return [await sendShare(job, { hasTimes: true })];
  // The first that fails ends the others.
  const failing = new AbortController();
  const signal = AbortSignal.any([transfer.signal, failing.signal]);
  const shared = { ...job, transfer: { ...transfer, signal, call: { ...transfer.call, signal } } };
  const sending = Array.from({ length: jobs }, async (_, index) => {
    try {
      const leave: HideRule = (path, kind) => kind !== "folder" && shareOf(path, jobs) !== index;
      return await sendShare(shared, { leave, hasTimes: false });
    } catch (error) {
      failing.abort(error);
      throw error;
    }
  });
  await Promise.allSettled(sending);
  transfer.signal.throwIfAborted();
  failing.signal.throwIfAborted();
  const answers = await Promise.all(sending);
  // What failed has been named: this one only brings the folders' times.
  const quiet = { ...job, problems: new Problems() };
  await sendShare(quiet, { leave: (_, kind) => kind !== "folder", hasTimes: true });
  return answers;
}

/** Which stream an entry goes with: the same on every run, and neighbours with different ones. */
function shareOf(path: WorkspacePath, count: number): number {
  let hash = 0;
  for (let index = 0; index < path.length; index += 1) hash = (hash * 31 + path.charCodeAt(index)) >>> 0;
  return hash % count;
}

function sendShare(job: TreeJob, share: Share): Promise<FilesWriteTreeResponse> {
  return job.transfer.files.writeTree(treeMessages(job, share), job.transfer.call);
}

async function* treeMessages(
  { transfer, source, remote, top, extent, condition, strict, problems, acceptsPacked }: TreeJob,
  { leave, hasTimes }: Share,
): AsyncGenerator<MessageInitShape<typeof FilesWriteTreeRequestSchema>, void> {
  const { workspace, path } = remote;
  const { precondition } = toWireCondition(condition);
  const header = {
    workspace,
    path,
    precondition,
    strict,
    mode: top.mode & 0o777,
    modifiedNs: hasTimes ? top.mtimeNs : 0n,
    extent,
  };
  yield { header };
  const parts = packTree({
    root: source.root,
    path: source.path,
    strict,
    signal: transfer.signal,
    ...(leave ? { leave } : {}),
  });
  for await (const { problems: found = [], ...part } of acceptsPacked ? packTreeParts(parts) : parts) {
    for (const problem of found) problems.add(problem);
    const { treeTrailer, fileTrailer, content, entries } = part;
    const { packedBytes = 0 } = part;
    if (!hasTimes)
      for (const { entry } of entries) if (entry?.kind === EntryKind.FOLDER) entry.modifiedNs = 0n;
    yield {
      entries,
      content,
      packedBytes,
      ...(fileTrailer ? { fileTrailer } : {}),
      // What failed here never reached the node: it is counted and named on this side.
      ...(treeTrailer ? { treeTrailer: { ...treeTrailer, failed: 0n } } : {}),
    };
    transfer.onBytes(packedBytes > 0 ? packedBytes : content.byteLength);
  }
}

/** What failed, on either side: a folder that fails in every stream is one problem. */
class Problems {
  readonly #faults = new Map<string, Fault>();
  #unnamed = 0;

  get named(): readonly TreeProblem[] {
    return [...this.#faults].map(([path, fault]) => ({ path, fault }));
  }

  get count(): number {
    return this.#faults.size + this.#unnamed;
  }

  add({ path, fault }: EntryProblem): void {
    if (this.#faults.has(path)) return;
    if (!fault || this.#faults.size >= maxNamedProblems) this.#unnamed += 1;
    else this.#faults.set(path, fromWireFault(fault));
  }

  addUnnamed(count: number): void {
    this.#unnamed += Math.max(0, count);
  }
}
