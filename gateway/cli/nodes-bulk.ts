import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, type JsonValue, toFaultJson } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { sortByUtf8 } from "../../shared/names/byte-order.ts";
import type { CallOptions, Client } from "../../shared/rpc/service.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { ArgumentSpec, OptionSpec } from "../../shared/terminal/command.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { interruptedStatus } from "../../shared/terminal/report-error.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { type OpenGateway, openGateway } from "./open-gateway.ts";

/** One command on one node: what it says of it. */
export interface NodeDone {
  readonly json: { readonly [key: string]: JsonValue };
  readonly lines: readonly string[];
}

/** What a command does with each node; `node` is what was typed, or the id of one that the selector fits. */
export type NodeAct = (admin: Client<typeof Admin>, node: string, call: CallOptions) => Promise<NodeDone>;

/** The argument that names a node, unless a selector does. */
export const nodeOrSelector: ArgumentSpec = {
  name: "[node]",
  text: "alias, id, or a prefix of the id of at least 6 characters; none with --selector",
};

/** The options of every command that takes one node or many. */
export const bulkOptions: readonly OptionSpec[] = [
  { flags: "--selector <k=v>", text: "every node with these labels, instead of one" },
  { flags: "--dry-run", text: "with --selector: name the nodes, and do nothing" },
  { flags: "--rate <n/s>", text: "with --selector: begin at most so many nodes a second, such as 5/s" },
  { flags: "--stop-after <failures>", text: "with --selector: begin no more nodes after so many failures" },
];

const partial = 7;
/** Nodes at one time: one that answers late holds up no other. */
const atOnce = 16;
const stopAfterRange = { min: 1, max: 100_000 };

/** Does it to the node that was named, or to every one that the selector fits; gives the exit status. */
export async function runOnNodes(
  input: CommandInput,
  runtime: Runtime,
  { node, act }: { readonly node: string | undefined; readonly act: NodeAct },
): Promise<number> {
  const selector = input.text("selector");
  if (selector === undefined) {
    const named = requireNode(node, input);
    await using gateway = await openGateway(runtime);
    const done = await act(gateway.client(Admin), named, gateway.call());
    await runtime.output.result(done.json, () => done.lines);
    return 0;
  }
  if (node !== undefined)
    throw usage("node", "a node and --selector were both given; one of them says which");
  const pace = parsePace(input);
  const labels = parsePairs([selector], "selector");
  await using gateway = await openGateway(runtime);
  const rows = await findRows(gateway, labels, selector);
  if (!input.flag("dry-run")) await new BulkRun(gateway, runtime, { rows, act, pace }).run();
  return await tellEnd(runtime, rows, input.flag("dry-run"));
}

/** A node that the selector fits, and what became of it. */
interface Row {
  readonly id: string;
  readonly alias: string;
  outcome: "untouched" | "begun" | "done" | "failed";
  done: NodeDone | undefined;
  fault: Fault | undefined;
}

interface Pace {
  /** Between two beginnings, in milliseconds. */
  readonly gapMs: number;
  readonly stopAfter: number;
}

interface BulkParts {
  readonly rows: readonly Row[];
  readonly act: NodeAct;
  readonly pace: Pace;
}

/** Goes through the rows in order, several at a time, and shows people each as soon as those before it are over. */
class BulkRun {
  readonly #gateway: OpenGateway;
  readonly #runtime: Runtime;
  readonly #parts: BulkParts;
  #next = 0;
  #failed = 0;
  #shown = 0;
  #mayBeginAt = 0;

  constructor(gateway: OpenGateway, runtime: Runtime, parts: BulkParts) {
    this.#gateway = gateway;
    this.#runtime = runtime;
    this.#parts = parts;
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: atOnce }, () => this.#work()));
    await this.#show();
  }

  async #work(): Promise<void> {
    const { rows, pace } = this.#parts;
    while (this.#failed < pace.stopAfter && this.#next < rows.length) {
      const row = rows[this.#next];
      this.#next += 1;
      if (!row || !(await this.#mayBegin())) return;
      // Others may have failed while this one waited for its turn.
      if (this.#failed >= pace.stopAfter) return;
      await this.#actOn(row);
      await this.#show();
    }
  }

  async #mayBegin(): Promise<boolean> {
    const { clock, signal } = this.#runtime;
    const now = clock.now();
    const beginAt = Math.max(now, this.#mayBeginAt);
    this.#mayBeginAt = beginAt + this.#parts.pace.gapMs;
    try {
      if (beginAt > now) await clock.sleep(beginAt - now, { signal });
    } catch {
      return false;
    }
    return !signal.aborted;
  }

  async #actOn(row: Row): Promise<void> {
    row.outcome = "begun";
    try {
      row.done = await this.#parts.act(this.#gateway.client(Admin), row.id, this.#gateway.call());
      row.outcome = "done";
    } catch (error) {
      row.fault = faultFromError(error);
      row.outcome = "failed";
      this.#failed += 1;
    }
  }

  async #show(): Promise<void> {
    const { output } = this.#runtime;
    if (output.json) return;
    for (let row = this.#parts.rows[this.#shown]; row; row = this.#parts.rows[this.#shown]) {
      if (row.outcome === "untouched" || row.outcome === "begun") return;
      this.#shown += 1;
      const lines = row.done?.lines ?? failureLines(row);
      await output.event({}, () => lines);
    }
  }
}

function failureLines({ alias, fault }: Row): readonly string[] {
  if (!fault) return [];
  const hint = fault.hint === undefined ? [] : [`  hint: ${fault.hint}`];
  return [`${alias}: ${fault.message} (${fault.code})`, ...hint];
}

/** The nodes that the selector fits, in the order of their aliases; `NOT_FOUND` when it fits none. */
async function findRows(
  gateway: OpenGateway,
  labels: Record<string, string>,
  selector: string,
): Promise<readonly Row[]> {
  const { nodes } = await gateway.client(Admin).listNodes({ labels }, gateway.call());
  if (nodes.length === 0) {
    throw new Fault("NOT_FOUND", `no node has the labels ${selector}`, { hint: "fairlead nodes ls" });
  }
  return sortByUtf8(nodes, ({ alias }) => alias).map(({ id, alias }) => ({
    id,
    alias,
    outcome: "untouched",
    done: undefined,
    fault: undefined,
  }));
}

/** What became of all; the exit status. */
async function tellEnd(runtime: Runtime, rows: readonly Row[], isDry: boolean): Promise<number> {
  const count = (outcome: Row["outcome"]): number => rows.filter((row) => row.outcome === outcome).length;
  const untouched = rows.filter(({ outcome }) => outcome === "untouched");
  const [done, failed] = [count("done"), count("failed")];
  if (runtime.output.json) {
    const nodes = rows.map(rowToJson);
    await runtime.output.result(
      { nodes, done, failed, untouched: untouched.length, dryRun: isDry },
      () => [],
    );
  } else if (isDry) {
    await runtime.output.event({}, () => rows.map(({ alias }) => alias));
    runtime.output.note(`note: nothing was done to these ${rows.length} nodes`);
  } else {
    runtime.output.note(`note: ${done} done, ${failed} failed, ${untouched.length} not touched`);
    if (untouched.length > 0)
      runtime.output.note(`note: not touched: ${untouched.map(({ alias }) => alias).join(", ")}`);
  }
  if (runtime.signal.aborted) return interruptedStatus;
  return failed > 0 ? partial : 0;
}

function rowToJson({ id, alias, outcome, done, fault }: Row): JsonValue {
  return {
    id,
    alias,
    outcome,
    ...(done ? { node: done.json } : {}),
    ...(fault ? { error: { ...toFaultJson(fault) } } : {}),
  };
}

function requireNode(node: string | undefined, input: CommandInput): string {
  const stray = ["rate", "stop-after"].find((name) => input.text(name) !== undefined);
  if (stray !== undefined || input.flag("dry-run"))
    throw usage(stray ?? "dry-run", `--${stray ?? "dry-run"} goes with --selector`);
  if (node !== undefined) return node;
  throw usage("node", "no node is named: give its alias or id, or --selector K=V");
}

function parsePace(input: CommandInput): Pace {
  const rate = input.text("rate");
  const perSecond = rate === undefined ? Infinity : Number(/^(\d{1,4}(?:\.\d{1,3})?)\/s$/.exec(rate)?.[1]);
  if (!(perSecond > 0)) throw usage("rate", `--rate ${rate ?? ""} is no rate; write it like 5/s`);
  return {
    gapMs: 1_000 / perSecond,
    stopAfter: input.integer("stop-after", stopAfterRange) ?? Infinity,
  };
}

function usage(field: string, message: string): Fault {
  return new Fault("INVALID_ARGUMENT", message, { details: { field } });
}
