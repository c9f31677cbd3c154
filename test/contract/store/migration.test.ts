import { chmodSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { createNodes } from "../../../gateway/pairing/nodes-repository.ts";
import { nextGeneration } from "../../../gateway/store/generations.ts";
import { migrate } from "../../../gateway/store/migrate.ts";
import { migrations, type Migration } from "../../../gateway/store/migrations.ts";
import { getSetting } from "../../../gateway/store/settings.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const newest = migrations.length;

function writeStore(dir: string, fixture: string): void {
  mkdirSync(dir);
  using database = new DatabaseSync(`${dir}/state.db`);
  database.exec(readFileSync(new URL(`../../fixtures/store/${fixture}`, import.meta.url), "utf8"));
  chmodSync(`${dir}/state.db`, 0o644);
}

test("a store of schema 1 is brought to the present one with everything in it", async () => {
  await using place = await makeTempFolder();
  const dir = place.join("gateway");
  writeStore(dir, "schema-1.sql");
  await using store = await openStore({ dir });
  expect(store.schema).toBe(newest);
  expect((statSync(`${dir}/state.db`).mode & 0o777).toString(8)).toBe("600");
  const nodes = createNodes(store, systemClock);
  expect(await nodes.list()).toMatchObject([
    {
      id: "0123456789abcdef0123",
      alias: "devbox",
      labels: { region: "eu" },
      profile: "work",
      revokedAt: undefined,
    },
    { id: "1123456789abcdef0123", alias: "devbox", profile: "full", revokedAt: 1_650_000_000_000 },
  ]);
  expect(await getSetting(store.db, "kept")).toEqual([1, "two"]);
  expect(await nextGeneration(store, "0123456789abcdef0123", 41)).toEqual({
    generation: 42,
    isStale: false,
  });
  expect(await store.db.selectFrom("approvals").selectAll().execute()).toEqual([]);
  expect(await store.db.selectFrom("nodes").select(["agent_version", "note"]).execute()).toEqual([
    { agent_version: "", note: "" },
    { agent_version: "", note: "" },
  ]);
  expect(await store.db.selectFrom("join_codes").select(["require_approval", "note"]).execute()).toEqual([
    { require_approval: 0, note: "" },
  ]);
  expect(await store.db.selectFrom("enrolment_requests").selectAll().execute()).toEqual([]);
});

test("a step that fails leaves the schema before it, and the next start takes the step again", async () => {
  await using place = await makeTempFolder();
  const dir = place.join("gateway");
  const broken: Migration = {
    version: newest + 1,
    up: async (db) => {
      await db.schema.createTable("half").addColumn("id", "text").execute();
      throw new Error("power cut");
    },
  };
  {
    await using store = await openStore({ dir });
    const steps = [...migrations, broken];
    await expect(migrate(store.db, { clock: systemClock, steps })).rejects.toThrow("power cut");
  }
  await using store = await openStore({ dir });
  expect(store.schema).toBe(newest);
  const whole: Migration = {
    ...broken,
    up: async (db) => db.schema.createTable("half").addColumn("id", "text").execute(),
  };
  expect(await migrate(store.db, { clock: systemClock, steps: [...migrations, whole] })).toBe(newest + 1);
});

test("the steps are numbered one by one, from 1 on", () => {
  expect(migrations.map(({ version }) => version)).toEqual(migrations.map((_, index) => index + 1));
});
