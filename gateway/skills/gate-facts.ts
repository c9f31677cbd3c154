import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import {
  judgeKnownGates,
  type FailedGate,
  type MachineFacts,
  type SkillGates,
} from "../../shared/skill-file/gates.ts";
import type { LiveLink } from "../link/links.ts";

/** What is known of a machine on which commands run. */
interface Known {
  readonly platform: string;
  readonly binaries: ReadonlySet<string>;
}

/** What `createGateFacts` takes. */
export interface GateFactsOptions {
  /** Binaries that some skill of the gateway needs. */
  readonly wanted: () => readonly string[];
  /** The gateway's own facts: environment and settings are its own wherever commands run. */
  readonly own: () => MachineFacts;
  /** Called after what is known has changed. */
  readonly onChange: () => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** What the machines say of themselves, for the gateway's own skills. Disposing it ends what asks them. */
export interface GateFacts extends AsyncDisposable {
  /** Asks the machine now and from time to time, until its link ends. What an offline one said stays. */
  follow(link: LiveLink): void;
  /** The machine is gone for good. */
  forget(nodeId: string): void;
  /** Asks all that are there again: other binaries are wanted now. */
  ask(): void;
  /**
   * What does not hold where commands of the node run, or of the gateway without a node; undefined while the machine
   * has not said yet.
   */
  judge(gates: SkillGates, nodeId: string | undefined): readonly FailedGate[] | undefined;
}

/** How often a machine is asked again, in milliseconds. */
const askEveryMs = 20_000;
/** Most binaries that one question names. */
const maxBinaries = 512;

/** Facts of no machine yet but the gateway. */
export function createGateFacts(options: GateFactsOptions): GateFacts {
  return new Facts(options);
}

class Facts implements GateFacts {
  readonly #options: GateFactsOptions;
  readonly #scope = new Scope("gate facts");
  readonly #nodes = new Map<string, Known>();
  /** Links that are asked: each publication of a node comes with its link. */
  readonly #followed = new WeakSet<AbortSignal>();
  #own: Known = { platform: process.platform, binaries: new Set() };
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(options: GateFactsOptions) {
    this.#options = options;
    this.#scope.spawn("own", (signal) => this.#followOwn(signal));
  }

  follow(link: LiveLink): void {
    if (this.#followed.has(link.signal)) return;
    this.#followed.add(link.signal);
    this.#scope.spawn(`facts of ${link.nodeId}`, async (ended) => {
      const signal = AbortSignal.any([ended, link.signal]);
      try {
        for (;;) {
          await this.#askNode(link, signal);
          await this.#pause(signal);
        }
      } catch (error) {
        ended.throwIfAborted();
        if (!link.signal.aborted) throw error;
      }
    });
  }

  forget(nodeId: string): void {
    this.#nodes.delete(nodeId);
  }

  ask(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  judge(gates: SkillGates, nodeId: string | undefined): readonly FailedGate[] | undefined {
    const known = nodeId === undefined ? this.#own : this.#nodes.get(nodeId);
    const needs = gates.os.length + gates.bins.length + gates.anyBins.length > 0;
    if (!known) return needs ? undefined : this.#judgeWith(gates, this.#own);
    return this.#judgeWith(gates, known);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  #judgeWith(gates: SkillGates, { platform, binaries }: Known): readonly FailedGate[] {
    const own = this.#options.own();
    return judgeKnownGates(gates, {
      platform,
      hasBinary: (name) => binaries.has(name),
      hasVariable: (name) => own.hasVariable(name),
      isEnabled: (setting) => own.isEnabled(setting),
    });
  }

  /** Waits for the time, or until other binaries are wanted. */
  async #pause(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const timer = this.#options.clock.sleep(askEveryMs, { signal: AbortSignal.any([signal, over.signal]) });
    await Promise.race([timer, this.#wake.promise]).finally(() => {
      timer.catch(() => undefined);
      over.abort();
    });
    signal.throwIfAborted();
  }

  async #followOwn(signal: AbortSignal): Promise<void> {
    for (;;) {
      const own = this.#options.own();
      const binaries = new Set<string>();
      for (const name of this.#options.wanted()) if (await own.hasBinary(name)) binaries.add(name);
      const before = this.#own;
      this.#own = { platform: own.platform, binaries };
      if (isOther(before, this.#own)) this.#options.onChange();
      await this.#pause(signal);
    }
  }

  async #askNode(link: LiveLink, signal: AbortSignal): Promise<void> {
    const binaries = this.#options.wanted().slice(0, maxBinaries);
    try {
      const answer = await link.client(Skills).probe({ binaries: [...binaries] }, { signal });
      const asked = new Set(binaries);
      const known: Known = {
        platform: answer.platform.slice(0, 64),
        binaries: new Set(answer.found.filter((name) => asked.has(name))),
      };
      const before = this.#nodes.get(link.nodeId);
      this.#nodes.set(link.nodeId, known);
      if (!before || isOther(before, known)) this.#options.onChange();
    } catch (error) {
      signal.throwIfAborted();
      // A node of before, or one that is busy: what it said last stays.
      this.#options.log.debug("a machine did not say what it has", {
        nodeId: link.nodeId,
        code: faultFromError(error).code,
      });
    }
  }
}

function isOther(a: Known, b: Known): boolean {
  if (a.platform !== b.platform || a.binaries.size !== b.binaries.size) return true;
  for (const name of a.binaries) if (!b.binaries.has(name)) return true;
  return false;
}
