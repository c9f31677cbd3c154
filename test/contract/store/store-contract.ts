import { describe, expect, test } from "vitest";
import { createCode, findCode, takeUse } from "../../../gateway/pairing/codes.ts";
import { isUniqueViolation } from "../../../gateway/store/fault-from-sqlite.ts";
import { nextGeneration } from "../../../gateway/store/generations.ts";
import { migrations } from "../../../gateway/store/migrations.ts";
import { getSetting, putSetting } from "../../../gateway/store/settings.ts";
import type { Store, StoreDb } from "../../../gateway/store/store.ts";
import type { NodesTable } from "../../../gateway/store/tables.ts";

/** A place where a store can be opened, ended and opened again. */
export interface StorePlace extends AsyncDisposable {
  open(): Promise<Store>;
}

/** A node's row for tests. */
function nodeRow(id: string, more: Partial<NodesTable> = {}): NodesTable {
  return {
    id,
    alias: `alias-${id}`,
    labels_json: "{}",
    profile: "read",
    key_digest: `sha256:${id}`,
    code_id: "code",
    paired_at: 1,
    certificate_expires_at: 2,
    issuer_pin: "",
    trusted_json: "[]",
    revoked_at: null,
    host_name: "",
    platform: "linux",
    agent_version: "",
    note: "",
    ...more,
  };
}

async function aliases(db: StoreDb): Promise<string[]> {
  const rows = await db.selectFrom("nodes").select("alias").orderBy("alias").execute();
  return rows.map((row) => row.alias);
}

/** What every engine behind the store interface has to do. */
export function describeStore(engine: string, makePlace: () => Promise<StorePlace>): void {
  describe(`the store over ${engine}`, () => {
    transactionRules(makePlace);
    valueRules(makePlace);
    repositoryRules(makePlace);
  });
}

function transactionRules(makePlace: () => Promise<StorePlace>): void {
  test("a transaction that fails leaves nothing of itself, and its error arrives as it was", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const stop = new Error("stop");
    const failing = store.transaction(async (db) => {
      await db.insertInto("nodes").values(nodeRow("1")).execute();
      expect(await aliases(db)).toEqual(["alias-1"]);
      throw stop;
    });
    await expect(failing).rejects.toBe(stop);
    expect(await aliases(store.db)).toEqual([]);
  });

  test("what an open transaction wrote is not seen outside of it", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const seen: (readonly string[])[] = [];
    await store.transaction(async (db) => {
      await db.insertInto("nodes").values(nodeRow("1")).execute();
      void aliases(store.db).then((list) => seen.push(list));
      await db.insertInto("nodes").values(nodeRow("2")).execute();
    });
    await expect.poll(() => seen.length).toBe(1);
    expect([["alias-1", "alias-2"], []]).toContainEqual(seen[0]);
  });

  test("of a hundred transactions at once that read, wait and write, none is lost", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const add = (): Promise<void> =>
      store.transaction(async (db) => {
        const value = Number((await getSetting(db, "count")) ?? 0);
        await Promise.resolve();
        await putSetting(db, "count", { value: value + 1, now: 0 });
      });
    await Promise.all(Array.from({ length: 100 }, add));
    expect(await getSetting(store.db, "count")).toBe(100);
  });

  test("what was written is there after the store was ended and opened again", async () => {
    await using place = await makePlace();
    {
      await using store = await place.open();
      await store.db.insertInto("nodes").values(nodeRow("1")).execute();
      await store.transaction(async (db) => putSetting(db, "kept", { value: true, now: 0 }));
    }
    await using store = await place.open();
    expect(await aliases(store.db)).toEqual(["alias-1"]);
    expect(await getSetting(store.db, "kept")).toBe(true);
    expect(store.schema).toBe(migrations.length);
  });
}

function valueRules(makePlace: () => Promise<StorePlace>): void {
  test("texts and numbers come back as they went in", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const texts = [
      "",
      "line\nline",
      "😀 ä \u0001",
      '"quoted" \\',
      "'; drop table nodes; --",
      "x".repeat(100_000),
    ];
    for (const [index, text] of texts.entries()) {
      const row = nodeRow(`${index}`, { host_name: text, paired_at: Number.MAX_SAFE_INTEGER });
      await store.db.insertInto("nodes").values(row).execute();
      expect(await store.db.selectFrom("nodes").selectAll().where("id", "=", `${index}`).execute()).toEqual([
        row,
      ]);
    }
    const value = { list: [1, null, "x"], nested: { ключ: false } };
    await putSetting(store.db, "json", { value, now: 0 });
    expect(await getSetting(store.db, "json")).toEqual(value);
    expect(await getSetting(store.db, "nothing")).toBeUndefined();
  });

  test("texts are in the order of their UTF-8 bytes", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const names = ["b", "a-b", "a", "Z", "a1", "é", "😀", "z"];
    for (const name of names)
      await store.db
        .insertInto("nodes")
        .values(nodeRow(name, { alias: name }))
        .execute();
    const byBytes = names.toSorted((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
    expect(await aliases(store.db)).toEqual(byBytes);
  });

  test("a key that is there already is told from other errors, and an update says how many rows it met", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const insert = (row: NodesTable): Promise<unknown> => store.db.insertInto("nodes").values(row).execute();
    await insert(nodeRow("1"));
    for (const row of [nodeRow("1", { alias: "x", key_digest: "x" }), nodeRow("2", { alias: "alias-1" })]) {
      const error: unknown = await insert(row).catch((reason: unknown) => reason);
      expect(isUniqueViolation(error)).toBe(true);
    }
    const wrong: unknown = await insert({ ...nodeRow("3"), alias: null as unknown as string }).catch(
      (reason: unknown) => reason,
    );
    expect(wrong).toBeInstanceOf(Error);
    expect(isUniqueViolation(wrong)).toBe(false);
    const revoke = store.db.updateTable("nodes").set({ revoked_at: 5 }).where("revoked_at", "is", null);
    expect((await revoke.executeTakeFirst()).numUpdatedRows).toBe(1n);
    expect((await revoke.executeTakeFirst()).numUpdatedRows).toBe(0n);
    // The alias of a revoked node is free again.
    await insert(nodeRow("2", { alias: "alias-1" }));
  });
}

function repositoryRules(makePlace: () => Promise<StorePlace>): void {
  test("generations of a node only rise, one for each that asks, also after the store was opened again", async () => {
    await using place = await makePlace();
    {
      await using store = await place.open();
      const next = async (nodeId: string): Promise<number> =>
        (await nextGeneration(store, nodeId, 0)).generation;
      const given = await Promise.all(Array.from({ length: 20 }, () => next("a")));
      expect(given.toSorted((left, right) => left - right)).toEqual(
        Array.from({ length: 20 }, (_, at) => at + 1),
      );
      expect(await next("b")).toBe(1);
    }
    await using store = await place.open();
    expect(await nextGeneration(store, "a", 0)).toEqual({ generation: 21, isStale: false });
  });

  test("a home that comes with an older generation than was given to its node is stale; a lost answer is not", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const ask = async (presented: number): Promise<boolean> =>
      (await nextGeneration(store, "a", presented)).isStale;
    expect(await ask(0)).toBe(false); // given 1
    expect(await ask(1)).toBe(false); // given 2
    expect(await ask(1)).toBe(false); // the answer got lost; given 3
    expect(await ask(3)).toBe(false); // given 4
    expect(await ask(4)).toBe(false); // given 5: a copy is made of the home that knows 4
    expect(await ask(5)).toBe(false); // given 6
    expect(await ask(4)).toBe(true); // the copy; given 7
    expect(await ask(6)).toBe(true); // the first home, which the copy has overtaken
    expect(await ask(100)).toBe(false); // the gateway was put back to an older state
  });

  test("of a hundred that take a code of three uses at once, three succeed", async () => {
    await using place = await makePlace();
    await using store = await place.open();
    const { secret } = await createCode(store.db, { uses: 3 }, 0);
    const take = (): Promise<string> =>
      store
        .transaction(async (db) => {
          const code = await findCode(db, secret, "node");
          if (code) await takeUse(db, code, 1);
          return code ? "taken" : "none";
        })
        .catch(() => "refused");
    const results = await Promise.all(Array.from({ length: 100 }, take));
    expect(results.filter((result) => result === "taken")).toHaveLength(3);
    expect(results.filter((result) => result === "refused")).toHaveLength(97);
    expect(await findCode(store.db, secret, "other")).toBeUndefined();
  });
}
