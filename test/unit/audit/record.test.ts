import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { firstForerunner, formatAuditLine, parseAuditLine } from "../../../gateway/audit/audit-record.ts";
import { gatewayDefaults } from "../../../gateway/config/gateway-settings.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { openTestAudit } from "../../support/open-audit.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const entry = { actor: "user:local", action: "nodes.rename", target: "node:1", outcome: "ok" };
const place = { sequence: 1, timeMs: 0, previous: firstForerunner };
const signal = AbortSignal.timeout(60_000);

test("a file of the record has 64 MiB and is kept for 400 days", () => {
  expect(gatewayDefaults.limits.auditFileBytes).toBe(64 * 1024 * 1024);
  expect(gatewayDefaults.limits.auditKeepMs).toBe(400 * 24 * 60 * 60 * 1000);
});

test("a line comes back as it was written, and any other byte makes it none", () => {
  const { text, hash } = formatAuditLine(
    { ...entry, details: { name: 'a "quoted" \u001b[31m name' } },
    place,
  );
  expect(text).not.toContain("\u001b");
  expect(parseAuditLine(text)).toMatchObject({ hash, previous: firstForerunner, record: entry });
  for (let at = 0; at < text.length; at += 7) {
    const changed = `${text.slice(0, at)}${text[at] === "x" ? "y" : "x"}${text.slice(at + 1)}`;
    expect(parseAuditLine(changed)).toBeUndefined();
  }
});

test("what is too long, too many or too deep is cut, and the line stays whole", () => {
  const deep = Array.from({ length: 40 }).reduce<{ in?: unknown }>((inner) => ({ in: inner }), {});
  const hostile = { name: "n".repeat(10_000), list: Array.from({ length: 5_000 }, () => "x"), deep } as never;
  const { text } = formatAuditLine({ ...entry, details: hostile }, place);
  expect(text.length).toBeLessThan(8_000);
  expect(parseAuditLine(text)?.record.details).toMatchObject({ name: `${"n".repeat(1_000)}…` });
});

test("records keep their order and number over files and restarts, and are found by what they concern", async () => {
  await using folder = await makeTempFolder();
  {
    await using first = await openTestAudit(folder);
    await first.fill(20);
  }
  await using opened = await openTestAudit(folder);
  await opened.fill(20);
  const records = await opened.all();
  expect(records.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  const three = await Array.fromAsync(opened.audit.query({ nodeId: "three", action: "nodes" }, { signal }));
  expect(three.map(({ target }) => target)).toEqual(
    records
      .filter((one) => one.nodeId === "three" && one.action === "nodes.rename")
      .map(({ target }) => target),
  );
  expect((await readdir(folder.join("gateway", "audit"))).length).toBeGreaterThan(3);
  expect(await opened.audit.verify({ signal })).toMatchObject({ first: 1, last: 40, records: 40 });
});

test("many at once are all there, each once", async () => {
  await using folder = await makeTempFolder();
  await using opened = await openTestAudit(folder);
  await Promise.all(
    Array.from({ length: 500 }, (_, at) => opened.audit.append({ ...entry, target: `node:${at}` })),
  );
  const targets = (await opened.all()).map(({ target }) => target);
  expect(new Set(targets).size).toBe(500);
  expect(targets).toHaveLength(500);
});

test("whoever follows gets what was, what comes, and nothing twice, over the change of a file", async () => {
  await using folder = await makeTempFolder();
  await using opened = await openTestAudit(folder);
  await opened.fill(5);
  const stop = new AbortController();
  const seen: number[] = [];
  const reading = (async () => {
    for await (const { sequence } of opened.audit.follow({}, { signal: stop.signal })) seen.push(sequence);
  })();
  await opened.fill(60);
  await expect.poll(() => seen.length).toBe(65);
  stop.abort();
  await reading;
  expect(seen).toEqual(Array.from({ length: 65 }, (_, at) => at + 1));
});

test("a change that is taken back leaves no record, and one that is made has one", async () => {
  await using folder = await makeTempFolder();
  await using opened = await openTestAudit(folder);
  const taken = opened.store.transaction(async (transaction) => {
    await opened.audit.record(transaction, entry);
    throw new Error("taken back");
  });
  await expect(taken).rejects.toThrow("taken back");
  await opened.store.transaction((transaction) => opened.audit.record(transaction, entry));
  expect(await opened.all()).toHaveLength(1);
});

test("files that are too old are removed, and the rest is still proved", async () => {
  await using folder = await makeTempFolder();
  const clock = new ManualClock();
  await using opened = await openTestAudit(folder, { clock, keepMs: 1_000 });
  await opened.fill(30);
  await opened.audit.verify({ signal });
  await clock.advance(5_000);
  await opened.fill(30);
  const proof = await opened.audit.verify({ signal });
  expect(proof.first).toBeGreaterThan(1);
  expect(proof).toMatchObject({ last: 60, records: 61 - proof.first });
  expect((await opened.all()).at(0)?.sequence).toBe(proof.first);
});
