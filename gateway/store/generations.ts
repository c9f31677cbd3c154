import type { Store } from "./store.ts";

/** The generation of a node's next link. */
export interface NextGeneration {
  readonly generation: number;
  /** The home that asks knows less than was given to its node: another home went on from the same state. */
  readonly isStale: boolean;
}

/**
 * The next generation of a node's links: 1 at first, and higher than every one before, also after a restart. `presented`
 * is the last one that the home knows of; 0: none. A home knows the last that was given, or, when that answer got lost,
 * the one that it presented then; what is older than both was left behind by another home with the same identity.
 */
export async function nextGeneration(
  store: Pick<Store, "transaction">,
  nodeId: string,
  presented: number,
): Promise<NextGeneration> {
  return await store.transaction(async (db) => {
    const last = await db
      .selectFrom("link_generations")
      .select(["generation", "presented"])
      .where("node_id", "=", nodeId)
      .executeTakeFirst();
    const generation = (last?.generation ?? 0) + 1;
    const row = { generation, presented };
    await db
      .insertInto("link_generations")
      .values({ node_id: nodeId, ...row })
      .onConflict((conflict) => conflict.column("node_id").doUpdateSet(row))
      .execute();
    const isStale =
      last !== undefined && presented > 0 && presented < last.generation && presented !== last.presented;
    return { generation, isStale };
  });
}
