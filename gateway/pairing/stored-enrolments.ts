import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import type { Store } from "../store/store.ts";
import type { EnrolmentRequestsTable } from "../store/tables.ts";
import { approveRequest, rejectRequest } from "./decide-enrolment.ts";
import { rejectedFault } from "./enrolment-faults.ts";
import { toEnrolmentRequest } from "./enrolment-rows.ts";
import type { Decider, EnrolmentRequest, Enrolments } from "./enrolments.ts";
import type { HeldCalls } from "./held-calls.ts";
import { admittedAs, type RecordChange } from "./record-change.ts";
import type { RefusedJoins } from "./refused-joins.ts";

/** What enrolments stand on. */
export interface StoredEnrolmentsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly held: HeldCalls;
  readonly refused: RefusedJoins;
  readonly log: Log;
  readonly record: RecordChange;
}

/** Enrolments over the store. A decision is on the disk before the machine that waits hears of it. */
export function createEnrolments(deps: StoredEnrolmentsDeps): Enrolments {
  const { store, clock, held, refused, log, record } = deps;
  const shown = (row: EnrolmentRequestsTable): EnrolmentRequest => toEnrolmentRequest(row, held.has(row.id));
  return {
    list: async () => {
      const rows = await store.db
        .selectFrom("enrolment_requests")
        .selectAll()
        .where("state", "=", "pending")
        .where("expires_at", ">", clock.now())
        .orderBy("number")
        .execute();
      return rows.map(shown);
    },
    refused: () => refused.list(),
    approve: async (id, as) => {
      const { row, node, already } = await store.transaction(async (db) => {
        const approved = await approveRequest(db, id, { ...as, now: clock.now() });
        const { address, id: requestId } = approved.row;
        const after = { ...admittedAs(approved.node), address };
        const entry = { ...decision("approve", requestId, as.by), after, nodeId: approved.node.id };
        if (!approved.already) await record(db, entry);
        return approved;
      });
      const request = shown(row);
      held.end(row.id, "decided");
      if (!already) log.info("enrolment approved", { requestId: row.id, nodeId: node.id, alias: node.alias });
      return { request, node, already };
    },
    reject: async (id, as) => {
      const { row, already } = await store.transaction(async (db) => {
        const rejected = await rejectRequest(db, id, clock.now());
        const { address, host_name: hostName, key_digest: key } = rejected.row;
        const entry = { ...decision("reject", rejected.row.id, as?.by), after: { key, hostName, address } };
        if (!rejected.already) await record(db, entry);
        return rejected;
      });
      const request = shown(row);
      // A machine that is on the line is refused, and counted, by its own call.
      if (!held.has(row.id) && !already) refused.count(row.address, rejectedFault(row));
      held.end(row.id, "decided");
      if (!already) log.info("enrolment rejected", { requestId: row.id, address: row.address });
      return { request, already };
    },
  };
}

const ownUser: Decider = { actor: "user:local", address: "local" };

function decision(verb: "approve" | "reject", requestId: string, by: Decider = ownUser) {
  const [action, target] = [`enrolments.${verb}`, `request:${requestId}`];
  return { ...by, action, target, outcome: "ok" } as const;
}
