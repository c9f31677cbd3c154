import { isFault } from "../../shared/fault/fault.ts";
import type { WorkspaceFreshness } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { WorkspaceRegistry, WorkspaceState } from "./registry.ts";

/** How long a node may take to say how fresh its workspaces are, in milliseconds. */
const answerMs = 2_000;
/** Nodes that are asked at once. */
const askedAtOnce = 64;

/** How fresh what is known of each workspace is, by node and name. */
export type FreshnessByWorkspace = ReadonlyMap<string, WorkspaceFreshness>;

/** The key of a workspace among all. */
export function freshnessKey({ nodeId, workspace }: Pick<WorkspaceState, "nodeId" | "workspace">): string {
  return `${nodeId}/${workspace}`;
}

/** Asks each node that can be reached; one that does not answer in time is left out. */
export async function askFreshness(
  registry: Pick<WorkspaceRegistry, "acquire">,
  states: readonly WorkspaceState[],
  { signal }: Pick<CallContext, "signal">,
): Promise<FreshnessByWorkspace> {
  const byNode = new Map<string, WorkspaceState>();
  for (const state of states) if (state.state === "available") byNode.set(state.nodeId, state);
  const waiting = [...byNode.values()];
  const found = new Map<string, WorkspaceFreshness>();
  const ask = async (): Promise<void> => {
    for (let state = waiting.pop(); state; state = waiting.pop()) {
      const { nodeId, workspace } = state;
      try {
        const { files } = registry.acquire({ nodeId, workspace });
        const { exports } = await files.listExports({}, { signal, deadlineMs: answerMs });
        for (const one of exports) {
          if (one.freshness) found.set(freshnessKey({ nodeId, workspace: one.workspace }), one.freshness);
        }
      } catch (error) {
        // What stands in the list is true without it.
        if (!isFault(error)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: askedAtOnce }, ask));
  signal.throwIfAborted();
  return found;
}
