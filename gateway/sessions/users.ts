import { Fault } from "../../shared/fault/fault.ts";
import { Role } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { isAlias } from "../../shared/names/alias.ts";
import { findRole, nameOfRole } from "../../shared/rpc/principal.ts";
import type { Store, StoreDb } from "../store/store.ts";
import type { UsersTable } from "../store/tables.ts";
import type { Tokens } from "./tokens.ts";

/** Somebody who administers the gateway. */
export interface UserRecord {
  readonly name: string;
  /** The most that their tokens give. */
  readonly role: Role;
  readonly createdAt: number;
}

/** The users of a gateway. `local`, whoever reaches the gateway's own socket, is one of them from the start. */
export interface Users {
  /** By name. */
  list(): Promise<readonly UserRecord[]>;
  /** `ALREADY_EXISTS` for a name that is taken, `INVALID_ARGUMENT` for one that is none. */
  add(name: string, role: Role): Promise<UserRecord>;
  /** Ends their tokens too. `NOT_FOUND`, and `CONFLICT` for `local` and for the last administrator. */
  remove(name: string): Promise<UserRecord>;
  /** Holds for their tokens at once. `NOT_FOUND`, and `CONFLICT` for the last administrator. */
  setRole(name: string, role: Role): Promise<UserRecord>;
}

/** What the users stand on. */
export interface UsersOptions {
  readonly store: Store;
  readonly tokens: Pick<Tokens, "revokeOf" | "refresh">;
  readonly clock: Clock;
}

/** The users of a store. */
export function createUsers({ store, tokens, clock }: UsersOptions): Users {
  return {
    list: async () =>
      (await store.db.selectFrom("users").selectAll().orderBy("name").execute()).map(toRecord),
    add: async (name, role) => {
      const row = { name: parseName(name), role: nameOfRole(role), created_at: clock.now() };
      const added = await store.db
        .insertInto("users")
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst();
      if (added.numInsertedOrUpdatedRows !== 0n) return toRecord(row);
      throw new Fault("ALREADY_EXISTS", `there is a user ${row.name} already`, {
        hint: `fairlead users role ${row.name} ${row.role}`,
        details: { field: "name", actual: row.name },
      });
    },
    remove: async (name) => {
      const removed = await store.transaction(async (db) => {
        const row = await findUser(db, name);
        if (row.name === "local") throw ownUserFault();
        await keepAnAdmin(db, row);
        await db.deleteFrom("users").where("name", "=", row.name).execute();
        return toRecord(row);
      });
      await tokens.revokeOf(removed.name);
      return removed;
    },
    setRole: async (name, role) => {
      const changed = await store.transaction(async (db) => {
        const row = await findUser(db, name);
        if (role !== Role.ADMIN) await keepAnAdmin(db, row);
        await db
          .updateTable("users")
          .set({ role: nameOfRole(role) })
          .where("name", "=", row.name)
          .execute();
        return toRecord({ ...row, role: nameOfRole(role) });
      });
      // What goes on was begun with another role: it ends, and begins anew with this one.
      await tokens.refresh(changed.name);
      return changed;
    },
  };
}

function parseName(text: string): string {
  if (isAlias(text)) return text;
  throw new Fault("INVALID_ARGUMENT", `${JSON.stringify(text.slice(0, 64))} is no name of a user`, {
    hint: "choose a name like anna or ci-2: a to z, 0 to 9 and single hyphens, a letter first",
    details: { field: "name" },
  });
}

async function findUser(db: StoreDb, name: string): Promise<UsersTable> {
  const row = await db.selectFrom("users").selectAll().where("name", "=", name).executeTakeFirst();
  if (row) return row;
  throw new Fault("NOT_FOUND", `there is no user ${name.slice(0, 64)}`, {
    hint: "fairlead users ls",
    details: { field: "name", actual: name.slice(0, 64) },
  });
}

/** Transactions run one after another: of two commands at once, the second one sees what the first has done. */
async function keepAnAdmin(db: StoreDb, row: UsersTable): Promise<void> {
  if (row.role !== nameOfRole(Role.ADMIN)) return;
  const others = await db
    .selectFrom("users")
    .select("name")
    .where("role", "=", row.role)
    .where("name", "!=", row.name)
    .limit(1)
    .execute();
  if (others.length > 0) return;
  throw new Fault("CONFLICT", `${row.name} is the last administrator`, {
    hint: "make another one first: fairlead users role NAME admin",
    details: { user: row.name },
  });
}

function ownUserFault(): Fault {
  return new Fault("CONFLICT", "local is whoever reaches the gateway's own socket, and stays", {
    hint: "fairlead users role local viewer takes its tokens' rights",
    details: { user: "local" },
  });
}

function toRecord(row: UsersTable): UserRecord {
  return { name: row.name, role: findRole(row.role) ?? Role.VIEWER, createdAt: row.created_at };
}
