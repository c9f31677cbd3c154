import { Fault } from "../../shared/fault/fault.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { Tools } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { LiveLink, PublicationReader } from "../link/links.ts";
import { readDescriptor, type NodeTool } from "./descriptor.ts";

/** A published tool that was refused. */
export interface ToolProblem {
  /** As the node wrote it. */
  readonly name: string;
  readonly fault: Fault;
}

/** What one node publishes, checked. */
export interface NodeToolSet {
  readonly nodeId: string;
  readonly epoch: bigint;
  readonly digest: string;
  /** In order of their names. */
  readonly tools: readonly NodeTool[];
  readonly problems: readonly ToolProblem[];
}

/** The tools of every connected node. */
export interface ToolCatalogue {
  /** Fills it with what nodes publish. */
  readonly reader: PublicationReader;
  /** The set of one node; undefined while it publishes none. */
  find(nodeId: string): NodeToolSet | undefined;
  /** All sets, in order of the nodes' ids. */
  list(): readonly NodeToolSet[];
  /** The node has another alias now: its tools have other names. */
  renamed(nodeId: string): void;
  /** One item after each change; a slow reader gets one for many. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<string>;
}

/** Most tools that a node publishes. */
export const maxNodeTools = 1_000;

const readDeadlineMs = 20_000;

/** A catalogue that knows nothing yet. */
export function createToolCatalogue(): ToolCatalogue {
  return new Catalogue();
}

class Catalogue implements ToolCatalogue {
  readonly reader: PublicationReader;
  readonly #sets = new Map<string, NodeToolSet>();
  /** Generation of the link that a set came over: a later boot begins its epochs again. */
  readonly #generations = new Map<string, number>();
  readonly #changes = createBroadcast<string>({
    limit: 1_000,
    keyOf: (nodeId) => nodeId,
    onOverflow: () => "",
  });

  constructor() {
    this.reader = {
      kind: PublicationKind.TOOLS,
      read: (link) => this.#read(link),
      withdraw: (nodeId) => this.#withdraw(nodeId),
    };
  }

  find(nodeId: string): NodeToolSet | undefined {
    return this.#sets.get(nodeId);
  }

  list(): readonly NodeToolSet[] {
    return [...this.#sets.values()].toSorted((a, b) => compareByUtf8(a.nodeId, b.nodeId));
  }

  renamed(nodeId: string): void {
    this.#changes.tell(nodeId);
  }

  changes(options: { readonly signal: AbortSignal }): AsyncGenerator<string> {
    return this.#changes.watch(options);
  }

  async #read(link: LiveLink): Promise<void> {
    const answer = await link
      .client(Tools)
      .listPublished({}, { signal: link.signal, deadlineMs: readDeadlineMs });
    link.signal.throwIfAborted();
    const before = this.#sets.get(link.nodeId);
    const isSameBoot = this.#generations.get(link.nodeId) === link.generation;
    if (before && isSameBoot && before.epoch > answer.epoch) return;
    this.#generations.set(link.nodeId, link.generation);
    const refused = answer.problems.map(({ name, fault }) => ({
      name,
      fault: fault ? fromWireFault(fault) : new Fault("INVALID_ARGUMENT", `the node refused ${name}`),
    }));
    const { tools, problems } = readDescriptors(answer.tools);
    this.#sets.set(link.nodeId, {
      nodeId: link.nodeId,
      epoch: answer.epoch,
      digest: answer.digest,
      tools,
      problems: [...problems, ...refused.slice(0, maxNodeTools)],
    });
    if (before?.digest !== answer.digest) this.#changes.tell(link.nodeId);
  }

  #withdraw(nodeId: string): void {
    this.#generations.delete(nodeId);
    if (this.#sets.delete(nodeId)) this.#changes.tell(nodeId);
  }
}

type Descriptors = Parameters<typeof readDescriptor>[0][];

/** Each descriptor is taken or refused by itself: one bad tool never costs another. */
export function readDescriptors(descriptors: Readonly<Descriptors>): Pick<NodeToolSet, "tools" | "problems"> {
  const tools = new Map<string, NodeTool>();
  const problems: ToolProblem[] = [];
  const sorted = descriptors.toSorted((a, b) => compareByUtf8(a.name, b.name));
  for (const [index, descriptor] of sorted.entries()) {
    try {
      if (index >= maxNodeTools) throw tooMany(sorted.length);
      const tool = readDescriptor(descriptor);
      if (tools.has(tool.name)) {
        throw new Fault("ALREADY_EXISTS", `the node publishes another tool of the name ${tool.name}`);
      }
      tools.set(tool.name, tool);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      problems.push({ name: descriptor.name.slice(0, 200), fault: error });
    }
  }
  return { tools: [...tools.values()], problems };
}

function tooMany(actual: number): Fault {
  return new Fault("LIMIT_REACHED", `a node publishes at most ${maxNodeTools} tools`, {
    details: { limit: maxNodeTools, actual },
  });
}
