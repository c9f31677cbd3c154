import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";

let gateway: TestGateway;

const aliases = Array.from({ length: 50 }, (_, index) => `m${String(index + 1).padStart(2, "0")}`);
/** Nodes that hold as many labels as a node may. */
const full = ["m07", "m21", "m50"];

/** One machine enrols, and the rows of fifty that are like it are put beside it: none of them is linked. */
beforeAll(async () => {
  gateway = await startGateway();
  const first = await startNode({ gateway, alias: "first" });
  await first[Symbol.asyncDispose]();
  await gateway.kill("SIGTERM");
  const db = new DatabaseSync(join(gateway.home, "gateway/state.db"));
  const row = { ...db.prepare("SELECT * FROM nodes WHERE alias = 'first'").get() };
  const names = Object.keys(row);
  const insert = db.prepare(
    `INSERT INTO nodes (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
  );
  const many = Object.fromEntries(Array.from({ length: 63 }, (_, index) => [`l${index}`, "x"]));
  for (const alias of aliases.toReversed()) {
    const labels_json = JSON.stringify({ ...(full.includes(alias) ? many : {}), env: "prod" });
    const own: Record<string, unknown> = { ...row, ...ownOf(row, alias), labels_json };
    insert.run(...names.map((name) => (own[name] ?? null) as string | number | null));
  }
  db.close();
  await gateway.restart();
});

/** What no two nodes may share. */
function ownOf(
  { id, key_digest }: Readonly<Record<string, unknown>>,
  alias: string,
): Record<string, unknown> {
  const mark = Buffer.from(alias).toString("hex");
  const marked = (text: unknown): string => `${String(text).slice(0, -mark.length)}${mark}`;
  return { id: marked(id), key_digest: marked(key_digest), alias };
}

afterAll(() => gateway[Symbol.asyncDispose]());

proves(
  "fleet.bulk-result-a-node",
  "a selector gives one result a node in the order of their aliases, and the exit status says whether all went well",
  { timeout: 120_000 },
  async () => {
    const done = await gateway.cli(["nodes", "label", "--selector", "env=prod", "seen=yes", "--json"]);
    expect(done.exitCode).toBe(7);
    const rows = listOf(done.json, "nodes");
    expect(rows.map((row) => memberOf(row, "alias"))).toEqual(aliases);
    const failed = rows.filter((row) => memberOf(row, "outcome") === "failed");
    expect(failed.map((row) => memberOf(row, "alias"))).toEqual(full);
    for (const row of failed)
      expect(memberOf(row, "error")).toMatchObject({
        code: "INVALID_ARGUMENT",
        hint: expect.stringContaining("labels like") as unknown,
      });
    expect(done.json).toMatchObject({ done: 47, failed: 3, untouched: 0, dryRun: false });

    // The same for people: a line a node, a failure with its code and its hint.
    const people = await gateway.cli(["nodes", "label", "--selector", "env=prod", "seen=twice"]);
    expect(people.exitCode).toBe(7);
    const lines = people.stdout.trimEnd().split("\n");
    expect(lines.filter((line) => !line.startsWith("  ")).map((line) => line.split(":")[0])).toEqual(aliases);
    expect(lines.find((line) => line.startsWith("m07:"))).toContain("(INVALID_ARGUMENT)");
    expect(lines[lines.findIndex((line) => line.startsWith("m07:")) + 1]).toMatch(/^ {2}hint: /);

    const whole = await gateway.cli([
      "nodes",
      "note",
      "--selector",
      "env=prod,seen=twice",
      "new disk",
      "--json",
    ]);
    expect({ exitCode: whole.exitCode, json: whole.json }).toMatchObject({
      exitCode: 0,
      json: { done: 47, failed: 0 },
    });
    const none = await gateway.cli(["nodes", "revoke", "--selector", "env=none", "--json"]);
    expect(faultOf(none)).toMatchObject({ exitCode: 4, code: "NOT_FOUND", hint: "fairlead nodes ls" });
    expect(listOf(await gateway.json(["nodes", "ls"]), "nodes")).toHaveLength(51);
  },
);

test(
  "what a selector would touch can be seen before, and failures stop it",
  { timeout: 120_000 },
  async () => {
    const dry = await gateway.json(["nodes", "revoke", "--selector", "env=prod", "--dry-run"]);
    expect(dry).toMatchObject({ done: 0, failed: 0, untouched: 50, dryRun: true });
    expect(listOf(await gateway.json(["nodes", "ls"]), "nodes")).toHaveLength(51);

    const args = [
      "nodes",
      "label",
      "--selector",
      "env=prod",
      "third=yes",
      "--rate",
      "20/s",
      "--stop-after",
      "1",
    ];
    const stopped = await gateway.cli([...args, "--json"]);
    expect(stopped.exitCode).toBe(7);
    const outcomes = listOf(stopped.json, "nodes").map((row) => memberOf(row, "outcome"));
    expect(outcomes.slice(0, 6)).toEqual(Array(6).fill("done"));
    expect(outcomes[6]).toBe("failed");
    expect(outcomes.at(-1)).toBe("untouched");

    const wrong = [
      ["nodes", "drain"],
      ["nodes", "drain", "m01", "--selector", "env=prod"],
      ["nodes", "drain", "m01", "--dry-run"],
      ["nodes", "drain", "--selector", "env=prod", "--rate", "fast"],
      ["nodes", "label", "m01"],
    ];
    for (const bad of wrong) expect(faultOf(await gateway.cli([...bad, "--json"])).exitCode).toBe(2);
  },
);

proves(
  "fleet.bulk-interrupted",
  "whoever interrupts it sees every result so far, and which nodes were not touched",
  { timeout: 120_000 },
  async () => {
    const args = ["nodes", "note", "--selector", "env=prod", "--rate", "2/s", "moved"];
    await using moving = spawnProgram(args, { home: gateway.home });
    await moving.waitForLine((line) => line === "m02: moved");
    const { exitCode } = await moving.kill("SIGINT");
    expect(exitCode).toBe(130);
    const moved = moving.stdout().match(/^m\d\d(?=: moved$)/gm) ?? [];
    expect(moved).toEqual(aliases.slice(0, moved.length));
    const untouched = /not touched: (.*)$/m.exec(moving.stderr())?.[1]?.split(", ");
    expect(untouched).toEqual(aliases.slice(moved.length));
    const nodes = listOf(await gateway.json(["nodes", "ls", "--selector", "env=prod"]), "nodes");
    expect(nodes.filter((node) => memberOf(node, "note") === "moved")).toHaveLength(moved.length);
  },
);

test("a single node is named as before", async () => {
  for (const state of ["drain", "undrain"])
    expect(await gateway.json(["nodes", state, "m01"])).toMatchObject({ alias: "m01" });
  expect(await gateway.json(["nodes", "note", "m01", "-"])).toMatchObject({ alias: "m01", note: "" });
  expect(await gateway.json(["nodes", "revoke", "m01"])).toMatchObject({ alias: "m01", already: false });
});
