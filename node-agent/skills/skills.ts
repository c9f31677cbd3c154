import { findFault } from "../../shared/fault/fault.ts";
import { PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { WatchEventKind } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { type PublishedSkill, Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, raceSignal, startDeadline, systemClock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import { type CallOptions, serve, type ServedService } from "../../shared/rpc/service.ts";
import type { MachineFacts } from "../../shared/skill-file/gates.ts";
import { callWorker, streamFromWorker } from "../workers/worker-calls.ts";
import type { WorkerEnvironment } from "../workers/worker-process.ts";
import { toWorkerPlan, type WorkerWorkspaces } from "../workers/worker-settings.ts";
import { startWorker, type Worker } from "../workers/worker.ts";
import { digestWith, judgeAll, type JudgedList, judgeList, partsOf } from "./judged-list.ts";

/** What this machine publishes now, as a hello and a notice say it. */
export interface SkillsNotice {
  readonly publication: typeof PublicationKind.SKILLS;
  /** Rises with each change while this process runs. */
  readonly epoch: bigint;
  /** Empty until the first search has ended. */
  readonly digest: string;
}

/** What `startSkills` takes. */
export interface SkillsHostOptions {
  /** What the machine exports, in the order of its configuration; read again at every start of the worker. */
  readonly workspaces: () => WorkerWorkspaces;
  /** Told after each change of what is published. */
  readonly publish: (notice: SkillsNotice) => void;
  /** What the worker inherits. */
  readonly environment: WorkerEnvironment;
  /** What this machine says of itself at the moment: the gates of its skills are judged by it. */
  readonly facts: () => MachineFacts;
  readonly clock?: Clock;
  readonly log: Log;
  /** How long the start waits for the first search, in milliseconds; what comes later is a notice. 5 s by default. */
  readonly firstSearchMs?: number;
}

/** The `Skills` service of this machine, answered by its worker process. Disposing it ends the process. */
export interface SkillsHost extends AsyncDisposable {
  readonly service: ServedService;
  /** What is published now. */
  readonly notice: SkillsNotice;
  /** The configuration has changed: the worker is started anew with it. */
  reload(): Promise<void>;
  /** A skill that this machine publishes, as it is now; undefined when there is none in that folder. */
  find(workspace: string, folder: string, signal: AbortSignal): Promise<PublishedSkill | undefined>;
  /** Something on this machine has changed: the gates are judged again at once. */
  judge(): Promise<void>;
  /** The worker's process id; undefined between two. */
  readonly pid: number | undefined;
}

const defaultFirstSearchMs = 5000;

/** Most programs that one question names. */
const maxProbed = 512;

/** How often the gates are judged again: a binary may have come, or gone. */
const judgeEveryMs = 10_000;

/** Starts the Skills worker, what passes calls to it, and what follows its changes. */
export async function startSkills(options: SkillsHostOptions): Promise<SkillsHost> {
  const host = new Host(options);
  await host.searched();
  return host;
}

/** Whoever waits for the worker. */
type Asking = Parameters<Worker["client"]>[1];

class Host implements SkillsHost {
  readonly service: ServedService;
  readonly #options: SkillsHostOptions;
  readonly #clock: Clock;
  readonly #worker: Worker;
  readonly #scope = new Scope("skills");
  readonly #first = Promise.withResolvers<void>();
  #epoch = 0n;
  #digest = "";
  #judged: Pick<JudgedList, "gated" | "foundDigest"> = { gated: [], foundDigest: "" };

  constructor(options: SkillsHostOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#worker = this.#scope.use(
      startWorker({
        kind: "skills",
        plan: () => toWorkerPlan(options.workspaces()),
        environment: options.environment,
        clock: this.#clock,
        log: options.log,
      }),
    );
    this.service = this.#serve();
    this.#scope.spawn("follow", (signal) => this.#follow(signal));
    this.#scope.spawn("gates", (signal) => this.#judgeNowAndThen(signal));
  }

  get notice(): SkillsNotice {
    return { publication: PublicationKind.SKILLS, epoch: this.#epoch, digest: this.#digest };
  }

  get pid(): number | undefined {
    return this.#worker.pid;
  }

  /** Resolves once the first search has ended, or would take too long to wait for. */
  async searched(): Promise<void> {
    const timeoutMs = this.#options.firstSearchMs ?? defaultFirstSearchMs;
    using patience = startDeadline({ timeoutMs, clock: this.#clock });
    await raceSignal(this.#first.promise, patience.signal).catch(() => undefined);
  }

  reload(): Promise<void> {
    return this.#worker.restart();
  }

  async find(workspace: string, folder: string, signal: AbortSignal): Promise<PublishedSkill | undefined> {
    const list = await this.#read({ signal }, { signal });
    return list.parts
      .flatMap((part) => part.skills)
      .find((skill) => skill.workspace === workspace && skill.folder === folder);
  }

  async judge(): Promise<void> {
    const judged = this.#judged;
    const failed = await judgeAll(judged.gated, this.#options.facts());
    // A list that was read meanwhile was judged as it was read.
    if (this.#judged === judged) this.#tell(digestWith(judged.foundDigest, failed));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  #serve(): ServedService {
    const worker = this.#worker;
    const epoch = (): bigint => this.#epoch;
    const read = (asking: Asking, call: CallOptions): Promise<JudgedList> => this.#read(asking, call);
    return serve(Skills, {
      listPublished: async function* (_request, context) {
        const list = await callWorker(context, (call) => read(context, call));
        yield* partsOf(list, epoch());
      },
      readFile: (request, context) =>
        streamFromWorker(context, async function* (call) {
          yield* (await worker.client(Skills, context)).readFile(request, call);
        }),
      listFiles: (request, context) =>
        callWorker(
          context,
          async (call) => await (await worker.client(Skills, context)).listFiles(request, call),
        ),
      probe: async ({ binaries }) => {
        const facts = this.#options.facts();
        const found: string[] = [];
        for (const name of binaries.slice(0, maxProbed))
          if (!name.includes("/") && (await facts.hasBinary(name))) found.push(name);
        return { platform: facts.platform, found };
      },
      watch: (request, context) =>
        streamFromWorker(context, async function* (call) {
          yield* (await worker.client(Skills, context)).watch(request, call);
        }),
    });
  }

  /** Follows the worker's watch for ever, over as many workers as it takes. */
  async #follow(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ firstMs: 100, maxMs: 5000 });
    for (;;) {
      try {
        const client = await this.#worker.client(Skills, { signal });
        for await (const event of client.watch({}, { signal, deadlineMs: noDeadline })) {
          if (event.kind === WatchEventKind.CHANGED || event.kind === WatchEventKind.GAP)
            await this.#look(signal);
          if (event.kind === WatchEventKind.AVAILABLE) backoff.reset();
        }
      } catch (error) {
        signal.throwIfAborted();
        // A worker that ended has been logged, where nobody told it to.
        const level = findFault(error)?.details["reason"] === "worker_gone" ? "debug" : "warn";
        this.#options.log[level]("the watch of skills was lost", { error: String(error) });
      }
      await this.#clock.sleep(backoff.next(), { signal });
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { gated, foundDigest, digest } = await this.#read({ signal }, { signal });
    this.#judged = { gated, foundDigest };
    this.#tell(digest);
    this.#first.resolve();
  }

  /** Asks the worker for its list, and this machine whether the gates hold. */
  async #read(asking: Asking, call: CallOptions): Promise<JudgedList> {
    const client = await this.#worker.client(Skills, asking);
    return await judgeList(client.listPublished({}, call), this.#options.facts());
  }

  async #judgeNowAndThen(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#clock.sleep(judgeEveryMs, { signal });
      await this.judge();
    }
  }

  #tell(digest: string): void {
    if (digest === "" || digest === this.#digest) return;
    this.#digest = digest;
    this.#epoch += 1n;
    this.#options.publish(this.notice);
  }
}
