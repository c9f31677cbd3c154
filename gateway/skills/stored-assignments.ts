import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Store } from "../store/store.ts";
import type { NameAssignments } from "./name-assignments.ts";

/** Names of skills in the gateway's store: the first claimant of a name holds it until its node is gone for ever. */
export function createStoredAssignments(store: Store, clock: Clock): NameAssignments {
  const kind = "skill";
  return {
    claim: async (name, claimant) => {
      const [nodeId = ""] = claimant.split("/", 1);
      await store.db
        .insertInto("name_assignments")
        .values({ kind, name, owner: claimant, node_id: nodeId, assigned_at: clock.now() })
        .onConflict((conflict) => conflict.columns(["kind", "name"]).doNothing())
        .execute();
      const held = await store.db
        .selectFrom("name_assignments")
        .select("owner")
        .where("kind", "=", kind)
        .where("name", "=", name)
        .executeTakeFirstOrThrow();
      return held.owner;
    },
    release: async (nodeId) => {
      await store.db
        .deleteFrom("name_assignments")
        .where("kind", "=", kind)
        .where("node_id", "=", nodeId)
        .execute();
    },
  };
}
