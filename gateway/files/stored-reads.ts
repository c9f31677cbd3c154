import type { Digest } from "../../shared/content/digest.ts";
import { parseDigest } from "../../shared/content/digest.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { Store } from "../store/store.ts";
import type { ReadKey, ReadMemory } from "./read-memory.ts";

const keptMs = 30 * 24 * 60 * 60 * 1_000;
/** Old rows go with every so many new ones, so that the table stays as large as thirty days need. */
const sweepEvery = 1_000;

/** What `createStoredReads` takes. */
export interface StoredReadsOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Who a call acts for. */
  readonly userOf: (context: CallContext) => string;
}

/** What users last read, in the gateway's store, for thirty days. */
export function createStoredReads({ store, clock, userOf }: StoredReadsOptions): ReadMemory {
  let written = 0;
  return {
    find: async (key) => {
      const row = await store.db
        .selectFrom("file_reads")
        .select("digest")
        .where("user", "=", userOf(key.context))
        .where("node_id", "=", key.nodeId)
        .where("workspace", "=", key.workspace)
        .where("path", "=", key.path)
        .where("read_at", ">", clock.now() - keptMs)
        .executeTakeFirst();
      return row === undefined ? undefined : parseDigest(row.digest);
    },
    remember: async (key, digest) => {
      await putRead(store, key, { user: userOf(key.context), digest, read_at: clock.now() });
      written += 1;
      if (written % sweepEvery !== 1) return;
      await store.db
        .deleteFrom("file_reads")
        .where("read_at", "<=", clock.now() - keptMs)
        .execute();
    },
  };
}

async function putRead(
  store: Store,
  key: ReadKey,
  row: { readonly user: string; readonly digest: Digest; readonly read_at: number },
): Promise<void> {
  await store.db
    .insertInto("file_reads")
    .values({ ...row, node_id: key.nodeId, workspace: key.workspace, path: key.path })
    .onConflict((conflict) =>
      conflict
        .columns(["user", "node_id", "workspace", "path"])
        .doUpdateSet({ digest: row.digest, read_at: row.read_at }),
    )
    .execute();
}
