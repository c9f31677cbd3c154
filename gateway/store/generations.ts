import type { StoreDb } from "./store.ts";

/** The next generation of a node's links: 1 at first, and higher than every one before, also after a restart. */
export async function nextGeneration(db: StoreDb, nodeId: string): Promise<number> {
  const row = await db
    .insertInto("link_generations")
    .values({ node_id: nodeId, generation: 1 })
    .onConflict((conflict) =>
      conflict.column("node_id").doUpdateSet((columns) => ({
        generation: columns("link_generations.generation", "+", 1),
      })),
    )
    .returning("generation")
    .executeTakeFirstOrThrow();
  return row.generation;
}
