import type { AuditRecord } from "../../gateway/audit/audit-record.ts";
import { type Audit, type AuditOptions, openAudit } from "../../gateway/audit/audit.ts";
import { openStore, type Store } from "../../gateway/store/store.ts";
import { systemClock } from "../../shared/lifetime/clock.ts";
import type { TempFolder } from "./temp-folder.ts";

/** A record over a real store in a folder. Disposing ends both. */
export interface TestAudit extends AsyncDisposable {
  readonly store: Store;
  readonly audit: Audit;
  /** Makes `count` records. */
  fill(count: number): Promise<void>;
  /** All records. */
  all(): Promise<readonly AuditRecord[]>;
}

/** Opens a record in `folder`; small files by default. */
export async function openTestAudit(
  folder: TempFolder,
  options: Partial<AuditOptions> = {},
): Promise<TestAudit> {
  const store = await openStore({ dir: folder.join("gateway") });
  const audit = await openAudit({
    store,
    dir: folder.join("gateway", "audit"),
    clock: systemClock,
    segmentBytes: 2_048,
    keepMs: Number.MAX_SAFE_INTEGER,
    onFault: (error) => {
      throw error;
    },
    ...options,
  });
  const all = async (): Promise<readonly AuditRecord[]> =>
    await Array.fromAsync(audit.query({}, { signal: AbortSignal.timeout(20_000) }));
  return {
    store,
    audit,
    fill: async (count) => {
      for (let made = 0; made < count; made += 1) {
        await audit.append({
          actor: "user:local",
          action: made % 2 === 0 ? "nodes.rename" : "tokens.create",
          target: `node:${made}`,
          outcome: "ok",
          nodeId: made % 3 === 0 ? "three" : "other",
          before: { alias: `before-${made}` },
          after: { alias: `after-${made}` },
        });
      }
    },
    all,
    [Symbol.asyncDispose]: async () => {
      await audit[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}
