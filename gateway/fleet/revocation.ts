import type { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import type { Links } from "../link/links.ts";
import { revokedFault } from "../pairing/nodes-repository.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";

/** What a room does once a node is revoked. The signal aborts when nobody waits for it any more. */
export type CleanUp = (node: NodeRecord, signal: AbortSignal) => Promise<void>;

/** What ends a node's authority. */
export interface RevocationOptions {
  readonly nodes: Pick<Nodes, "revoke">;
  readonly links: Pick<Links, "end">;
  /** What follows, in no order. One that hangs or fails keeps nobody from anything. */
  readonly cleanUps: readonly CleanUp[];
  readonly clock: Clock;
  /** Hears of clean-ups that failed or were left behind. */
  readonly onFault: (error: unknown, about: string) => void;
}

/** The one way in which a node's authority ends, whoever ends it. */
export interface Revocation {
  /** Revokes it in the store, then ends what it has. */
  revoke(nodeId: string): Promise<{ readonly node: NodeRecord; readonly already: boolean }>;
  /** Ends what a node has that is revoked in the store already. */
  end(node: NodeRecord): Promise<void>;
}

/** Most time that the connections of a link get to be gone, in milliseconds; nothing that comes on them counts any more. */
const linkGoneMs = 1_000;
/** Most time that clean-ups are waited for, in milliseconds; they go on by themselves. */
const cleanUpMs = 500;

/** Authority ends first, and for good; what is cleaned up after it cannot hold that up. */
export function createRevocation(options: RevocationOptions): Revocation {
  const end = async (node: NodeRecord): Promise<void> => {
    await within(linkGoneMs, options, () => options.links.end(node.id, revokedFault(node)));
    await within(cleanUpMs, options, async (signal) => {
      await Promise.all(options.cleanUps.map((cleanUp) => runOne(cleanUp, node, { ...options, signal })));
    });
  };
  return {
    revoke: async (nodeId) => {
      const revoked = await options.nodes.revoke(nodeId);
      await end(revoked.node);
      return revoked;
    },
    end,
  };
}

async function runOne(
  cleanUp: CleanUp,
  node: NodeRecord,
  { onFault, signal }: RevocationOptions & { readonly signal: AbortSignal },
): Promise<void> {
  try {
    await cleanUp(node, signal);
  } catch (error) {
    onFault(error, `clean-up after ${node.alias}`);
  }
}

/** Waits for `work` no longer than that; what is late is told, and goes on. */
async function within(
  timeoutMs: number,
  { clock, onFault }: RevocationOptions,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  using deadline = startDeadline({ timeoutMs, clock });
  const { signal } = deadline;
  try {
    await raceSignal(work(signal), signal);
  } catch (error) {
    onFault(signal.aborted ? (signal.reason as Fault) : error, "revocation");
  }
}
