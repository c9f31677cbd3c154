import type { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { createPause } from "../../shared/root/linux/pause.ts";
import { hashFile } from "./hash-files.ts";
import type { KnownFile } from "./known-tree.ts";
import type { Workspace } from "./open-workspace.ts";
import type { TreeChange } from "./scan-tree.ts";
import { type EntrySaid, toEvents } from "./tree-events.ts";
import type { WatchLog } from "./watch-log.ts";

/** What telling of changes stands on. */
export interface ChangeTellerOptions {
  readonly workspace: Workspace;
  readonly log: WatchLog;
  readonly clock: Clock;
}

/** Larger files are told of without their digest. */
const hashedUpToBytes = 8 * 1024 * 1024;
/** How long a file that cannot be read is tried again: the time before each try, in milliseconds. */
const readAgainAfterMs = [50, 100, 200, 400, 1_000, 3_000] as const;

interface Unread {
  readonly known: KnownFile;
  readonly tries: number;
  readonly dueAtMs: number;
}

/** Makes events of what scans find: each file is read first, so that its event carries the digest of what it holds. */
export class ChangeTeller {
  /** The place of a path among the kernel's hints, for the scan that runs. */
  orderOf: (path: WorkspacePath) => number | undefined = () => undefined;
  /** What could be read before the policy was changed, until the next scan has told of it. */
  wasOpen: ((path: WorkspacePath) => boolean) | undefined;
  /** What is found the first time is no change. */
  isTelling = false;
  readonly #options: ChangeTellerOptions;
  readonly #unread = new Map<WorkspacePath, Unread>();
  #lastEventAtMs = 0;

  constructor(options: ChangeTellerOptions) {
    this.#options = options;
  }

  /** When something was last told, in milliseconds since 1970; 0 for never. */
  get lastEventAtMs(): number {
    return this.#lastEventAtMs;
  }

  /** When a file is next to be tried again, in milliseconds since 1970. */
  get readAgainAtMs(): number {
    return Math.min(...[...this.#unread.values()].map(({ dueAtMs }) => dueAtMs));
  }

  /** Tells of all that one scan found. */
  async tell(changes: readonly TreeChange[]): Promise<void> {
    const { orderOf, wasOpen } = this;
    this.orderOf = () => undefined;
    if (!this.isTelling || changes.length === 0) return;
    const { workspace } = this.#options;
    const pause = createPause(undefined);
    for (const said of toEvents(changes, orderOf)) {
      if (await this.#isNews(said)) this.#append(judge(said, wasOpen, workspace));
      if (pause.isDue()) await pause.take();
    }
  }

  /**
   * Tries files again that could not be read when they were told of; the digest is told once there is one. Gives the
   * paths where something else stands by now. Nobody else may look meanwhile.
   */
  async readAgain(): Promise<readonly WorkspacePath[]> {
    const others: WorkspacePath[] = [];
    for (const [path, { known, tries, dueAtMs }] of this.#unread) {
      if (dueAtMs > this.#options.clock.now()) continue;
      this.#unread.delete(path);
      delete known.fault;
      if ((await this.#hash(path, known)) === "other") others.push(path);
      else if (known.digest === undefined) this.#later(path, known, tries);
      else this.#append({ kind: "changed", path, shown: known });
    }
    return others;
  }

  #append({ known: _known, before: _before, ...said }: EntrySaid): void {
    this.#lastEventAtMs = this.#options.clock.now();
    this.#options.log.append(said);
  }

  /** Reads a file that was changed; gives whether it is to be told of. */
  async #isNews({ path, known, before }: EntrySaid): Promise<boolean> {
    if (known?.kind !== "file") return true;
    if (known.digest === undefined && known.sizeBytes <= hashedUpToBytes) {
      const outcome = await this.#hash(path, known);
      if (outcome === "other" || known.fault) this.#later(path, known, 0);
    }
    if (before?.kind !== "file" || known.digest === undefined || before.digest !== known.digest) return true;
    return before.mode !== known.mode || before.mtimeNs !== known.mtimeNs;
  }

  async #hash(path: WorkspacePath, known: KnownFile): Promise<"kept" | "other"> {
    const { workspace, clock } = this.#options;
    return hashFile(known, path, { root: workspace.root, clock, signal: workspace.signal });
  }

  #later(path: WorkspacePath, known: KnownFile, tries: number): void {
    const waitMs = readAgainAfterMs[tries];
    if (waitMs === undefined || (known.fault && !isPassing(known.fault))) return;
    this.#unread.set(path, { known, tries: tries + 1, dueAtMs: this.#options.clock.now() + waitMs });
  }
}

/** Whether a file that cannot be read may soon be. */
function isPassing(fault: Fault): boolean {
  return fault.code === "IO_ERROR" || fault.code === "NOT_FOUND" || fault.code === "PATH_CHANGED";
}

/** What a change of policy alone opened or closed is told of as such. */
function judge(
  said: EntrySaid,
  wasOpen: ((path: WorkspacePath) => boolean) | undefined,
  workspace: Workspace,
): EntrySaid {
  if (!wasOpen) return said;
  if (said.kind === "created" && !wasOpen(said.path)) return { ...said, kind: "permitted" };
  const isClosed = workspace.judge("read", said.path).decision !== "allow";
  return said.kind === "removed" && isClosed ? { ...said, kind: "withdrawn" } : said;
}
