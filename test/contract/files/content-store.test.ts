import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { gatewayDefaults, resolveGatewaySettings } from "../../../gateway/config/gateway-settings.ts";
import {
  type ContentKey,
  type ContentStore,
  maxContentBytes,
  openContentStore,
} from "../../../gateway/files/content-store.ts";
import { holdSkills } from "../../../gateway/skills/hold-skills.ts";
import { readSkillFile } from "../../../gateway/skills/resources.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { silentLog } from "../../../shared/log/log.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { createTestCatalogue, published } from "../../support/published-skills.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const kibi = 1024;

interface Kept extends ContentKey {
  readonly bytes: Buffer;
}

function make(sizeBytes: number = kibi, nodeId = "devbox"): Kept {
  const bytes = randomBytes(sizeBytes);
  return { nodeId, digest: digestOf(bytes), bytes };
}

/** Where the store has it. */
function fileOf(dir: string, { nodeId, digest }: ContentKey): string {
  const hex = digest.slice("sha256:".length);
  return join(dir, nodeId, hex.slice(0, 2), hex);
}

async function keepAll(store: ContentStore, all: readonly Kept[]): Promise<void> {
  for (const one of all) await store.keep(one, one.bytes);
}

/** Which of them are there. */
async function thereOf(store: ContentStore, all: readonly Kept[]): Promise<readonly number[]> {
  const there: number[] = [];
  for (const [index, one] of all.entries()) {
    using found = await store.open(one);
    if (!found) continue;
    expect(found.bytes.equals(one.bytes)).toBe(true);
    there.push(index);
  }
  return there;
}

proves(
  "files.store-keeps-used",
  "over its size a store drops what was used least recently, and nothing that is in use",
  { timeout: 60_000 },
  async () => {
    await using folder = await makeTempFolder();
    const dir = folder.join("content");
    // The size is the administrator's to set.
    const config = { file: folder.join("config.yaml"), value: { contentStore: { maxBytes: 10 * kibi } } };
    const settings = resolveGatewaySettings(folder.path, { ...config } as never);
    expect(settings.contentStore).toEqual({ dir, maxBytes: 10 * kibi });
    expect(gatewayDefaults.contentStore.maxBytes).toBe(1024 ** 3);
    const clock = new ManualClock();
    const open = (): Promise<ContentStore> =>
      openContentStore({ ...settings.contentStore, clock, log: silentLog });
    const store = await open();
    const all = Array.from({ length: 16 }, () => make());
    await keepAll(store, all.slice(0, 10));
    expect(store.use).toEqual({ contents: 10, bytes: 10 * kibi });
    // The first is used: the second goes instead of it, on the disk as well.
    expect(await thereOf(store, all.slice(0, 1))).toEqual([0]);
    await keepAll(store, all.slice(10, 12));
    expect(store.use).toEqual({ contents: 10, bytes: 10 * kibi });
    expect(all.map((one) => existsSync(fileOf(dir, one)))).toEqual(
      all.map((_, at) => at < 12 && at !== 1 && at !== 2),
    );

    // A running transfer: a session that has begun to read an instruction file. A snapshot: the skills that are listed.
    const { catalogue, links, publish, withdraw } = createTestCatalogue();
    const [read, listed, indexed] = [all[3], all[4], all[5]];
    if (!read || !listed || !indexed) throw new Error("there is less");
    await publish({ id: "devbox" }, [published("read", { digest: read.digest })]);
    const list = catalogue.view({});
    const transfer = readSkillFile({ links, list, name: "devbox-read", content: store })[
      Symbol.asyncIterator
    ]();
    expect((await transfer.next()).value).toMatchObject({ kind: "header", sizeBytes: kibi });
    await publish({ id: "devbox" }, [published("listed", { digest: listed.digest })]);
    const ending = new AbortController();
    const holding = holdSkills({ catalogue, content: store, signal: ending.signal });
    store.refer("index devbox/app", [indexed]);
    // One after the other, twice what has room.
    for (const one of Array.from({ length: 20 }, () => make())) await store.keep(one, one.bytes);
    expect(store.use.bytes).toBe(10 * kibi);
    expect(await thereOf(store, all)).toEqual([3, 4, 5]);

    // Larger than all that may go: it is not kept, and what is referred to is still there.
    const large = make(9 * kibi);
    expect(await store.keep(large, large.bytes)).toBe(false);
    expect(store.use.bytes).toBeLessThanOrEqual(10 * kibi);
    expect(await thereOf(store, [...all, large])).toEqual([3, 4, 5]);

    // Let go of, each goes as anything else.
    await transfer.return?.();
    store.refer("index devbox/app", []);
    withdraw("devbox", "revoked");
    await expect
      .poll(async () => {
        for (const one of Array.from({ length: 10 }, () => make())) await store.keep(one, one.bytes);
        return await thereOf(store, all);
      })
      .toEqual([]);
    ending.abort();
    await holding.catch(() => undefined);
  },
);

test("a store that is opened again knows what was used last, removes what a crash left, and touches nothing else", async () => {
  await using folder = await makeTempFolder();
  const dir = folder.join("content");
  const clock = new ManualClock(Date.now());
  const open = (maxBytes: number): Promise<ContentStore> =>
    openContentStore({ dir, maxBytes, clock, log: silentLog });
  const first = await open(100 * kibi);
  const all = Array.from({ length: 6 }, () => make());
  for (const one of all) {
    await first.keep(one, one.bytes);
    await clock.advance(120_000);
  }
  // Used an hour later than the others were kept.
  await clock.advance(3_600_000);
  expect(await thereOf(first, all.slice(0, 1))).toEqual([0]);
  const [one] = all;
  if (!one) throw new Error("there is none");
  const half = `${fileOf(dir, make())}.new`;
  await mkdir(join(half, ".."), { recursive: true });
  writeFileSync(half, "half");
  writeFileSync(join(dir, "notes.txt"), "somebody's");
  writeFileSync(join(dir, "devbox", "else"), "somebody's");
  const again = await open(2 * kibi);
  expect(again.use).toEqual({ contents: 2, bytes: 2 * kibi });
  expect(await thereOf(again, all)).toEqual([0, 5]);
  expect(existsSync(half)).toBe(false);
  expect(readFileSync(join(dir, "notes.txt"), "utf8")).toBe("somebody's");
  expect(readFileSync(join(dir, "devbox", "else"), "utf8")).toBe("somebody's");
});

test("altered content is refused every time, until it is kept anew; what was removed is not there", async () => {
  await using folder = await makeTempFolder();
  const dir = folder.join("content");
  const store = await openContentStore({
    dir,
    maxBytes: 100 * kibi,
    clock: new ManualClock(),
    log: silentLog,
  });
  const one = make();
  await store.keep(one, one.bytes);
  for (const bytes of [Buffer.from("short"), Buffer.alloc(kibi, 1), Buffer.alloc(2 * kibi, 1)]) {
    writeFileSync(fileOf(dir, one), bytes);
    for (let time = 0; time < 2; time += 1)
      expect(await faultOf(store.open(one))).toMatchObject({
        code: "INTEGRITY_FAILURE",
        details: { digest: one.digest },
      });
    expect(await store.keep(one, one.bytes)).toBe(true);
    expect(await thereOf(store, [one])).toEqual([0]);
  }
  const other = make();
  expect(await faultOf(store.keep(one, other.bytes))).toMatchObject({ code: "INTEGRITY_FAILURE" });
  expect(await thereOf(store, [one, other])).toEqual([0]);
  await store.forget("devbox");
  expect(await thereOf(store, [one])).toEqual([]);
  expect(store.use).toEqual({ contents: 0, bytes: 0 });
  expect(readdirSync(dir)).toEqual([]);
});

test("content is that of the node that supplied it, and too much of it is not kept", async () => {
  await using folder = await makeTempFolder();
  const dir = folder.join("content");
  const log = silentLog;
  const store = await openContentStore({ dir, maxBytes: 4 * maxContentBytes, clock: new ManualClock(), log });
  const one = make();
  await store.keep(one, one.bytes);
  expect(await store.open({ ...one, nodeId: "other" })).toBeUndefined();
  expect(await faultOf(store.open({ ...one, nodeId: "../devbox" }))).toMatchObject({
    code: "INVALID_ARGUMENT",
  });
  const largest = make(maxContentBytes);
  expect(await store.keep(largest, largest.bytes)).toBe(true);
  const larger = make(maxContentBytes + 1);
  expect(await store.keep(larger, larger.bytes)).toBe(false);
  expect(store.use.contents).toBe(2);
});
