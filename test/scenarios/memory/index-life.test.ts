import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const many = (count: number): Record<string, string> =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `memory/${index % 10}/note-${index}.md`,
      `# Note ${index}\n\nword${index} stands here\n`,
    ]),
  );

const timeout = 120_000;

test(
  "an edit of one of 1,000 files makes the gateway read that file and no other, and ten saves cause one read",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace(many(1000));
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    const status = async (): Promise<unknown> => (await kit.memory.status())[0];
    await expect.poll(status, { timeout: 60_000 }).toMatchObject({ fresh: true, files: 1000, pending: 0 });
    const reads = (): number => kit.links.calls.filter((call) => call.endsWith("/Read")).length;
    expect(reads()).toBe(1000);

    for (let save = 0; save < 10; save += 1)
      await workspace.write({ "memory/3/note-333.md": `saved ${save}\n` });
    const before = kit.links.calls.length;
    await expect.poll(reads, { timeout: 10_000 }).toBe(1001);
    // Told by the watch: no list was asked for in between.
    expect(kit.links.calls.slice(before).filter((call) => call.endsWith("/Read"))).toHaveLength(1);
    const found = await kit.memory.search({ query: "saved" });
    expect(found.hits).toMatchObject([
      { path: "memory/3/note-333.md", text: "saved 9", digest: digestOf("saved 9\n") },
    ]);
    expect(reads()).toBe(1001);
  },
);

test(
  "what was written before a search that waits is in its answer, and removed files are in none",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "settle\n", "memory/a.md": "period\n" });
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    for (let round = 0; round < 20; round += 1) {
      await workspace.write({ "memory/new.md": `round${round} begins\n` });
      const found = await kit.memory.search({ query: `round${round}`, waitFresh: true });
      expect(found.workspaces).toMatchObject([{ fresh: true, reason: "" }]);
      expect(found.hits).toMatchObject([{ path: "memory/new.md", firstLine: 1, lastLine: 1 }]);
      await workspace.remove("memory/new.md");
      expect((await kit.memory.search({ query: `round${round}`, waitFresh: true })).hits).toEqual([]);
    }
  },
);

test(
  "a search covers all workspaces unless it names some, best first, and an offline one answers from its last state",
  { timeout },
  async () => {
    await using first = await makeTempWorkspace({ "MEMORY.md": "the settle period is 20 ms\n" });
    await using second = await makeTempWorkspace({
      "memory/x.md": "period\n",
      "memory/y.md": "settle period settle period\n",
    });
    await using kit = await openMemoryKit();
    await kit.addNode("boxa", { app: first.path });
    await kit.addNode("boxb", { web: second.path });
    const all = await kit.memory.search({ query: "settle period", waitFresh: true });
    expect(all.workspaces.map(({ workspace, fresh }) => ({ workspace, fresh }))).toEqual([
      { workspace: "boxa:/app", fresh: true },
      { workspace: "boxb:/web", fresh: true },
    ]);
    expect(all.hits.map(({ node, path }) => `${node} ${path}`).toSorted()).toEqual([
      "boxa MEMORY.md",
      "boxb memory/x.md",
      "boxb memory/y.md",
    ]);
    expect(all.hits.at(-1)?.path).toBe("memory/x.md");
    expect(all.hits.map(({ score }) => score)).toEqual(
      all.hits.map(({ score }) => score).toSorted((a, b) => b - a),
    );
    const one = await kit.memory.search({ query: "settle period", workspaceIds: ["boxa-app"] });
    expect(one.hits).toHaveLength(1);
    expect((await kit.memory.search({ query: "settle period", limit: 1 })).hits).toHaveLength(1);

    kit.links.disconnect("boxb");
    const away = await kit.memory.search({ query: "settle period" });
    expect(away.hits).toHaveLength(3);
    expect(away.workspaces).toMatchObject([{ fresh: true }, { fresh: false, reason: "node_offline" }]);
    expect(away.workspaces[1]?.verifiedMs).toBeGreaterThan(0n);
    await expect(kit.memory.get({ workspaceId: "boxb-web", path: "memory/x.md" })).rejects.toMatchObject({
      code: "WORKSPACE_ACCESS_UNAVAILABLE",
      details: { reason: "node_offline" },
    });

    kit.dropNode("boxb");
    await expect
      .poll(async () => (await kit.memory.search({ query: "settle period" })).workspaces.length)
      .toBe(1);
    await expect(kit.memory.search({ query: "x", workspaceIds: ["boxb-web"] })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  },
);

test(
  "the index is there again after a restart, and only what changed meanwhile is read",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace(many(50));
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    await kit.memory.search({ query: "word7", waitFresh: true });
    const reads = (): number => kit.links.calls.filter((call) => call.endsWith("/Read")).length;
    const before = reads();
    await kit.restart(async () => {
      await workspace.write({ "memory/7/note-7.md": "changed meanwhile\n" });
      await workspace.remove("memory/8/note-8.md");
    });
    const found = await kit.memory.search({ query: "meanwhile", waitFresh: true });
    expect(found.hits).toMatchObject([{ path: "memory/7/note-7.md" }]);
    expect((await kit.memory.search({ query: "word8" })).hits).toEqual([]);
    expect(reads()).toBe(before + 1);
  },
);

test("what cannot be indexed is named with its reason, and the rest is found", { timeout }, async () => {
  await using outside = await makeTempWorkspace({ "secret.md": "secret word\n" });
  await using workspace = await makeTempWorkspace({
    "MEMORY.md": "good word\n",
    "memory/bytes.md": Buffer.of(0x77, 0xff, 0x0a),
    "memory/large.md": "x".repeat(1024 * 1024 + 1),
    "memory/full.md": `word ${"x ".repeat(520_000)}`,
    "memory/other.txt": "word\n",
    "notes.md": "word\n",
    "memory/.env.md": "word\n",
  });
  await workspace.link("memory/link.md", `${outside.path}/secret.md`);
  await workspace.link("memory/linked", outside.path);
  await using kit = await openMemoryKit();
  await kit.addNode("devbox", { app: workspace.path });
  const found = await kit.memory.search({ query: "word", waitFresh: true });
  expect([...new Set(found.hits.map(({ path }) => path))].toSorted()).toEqual([
    "MEMORY.md",
    "memory/full.md",
  ]);
  const problems = found.workspaces[0]?.problems.map(({ path }) => path);
  expect(problems).toEqual(expect.arrayContaining(["memory/bytes.md", "memory/large.md", "memory/link.md"]));
  expect(found.workspaces).toMatchObject([{ fresh: true, files: 2 }]);
});

test(
  "a file that can never be indexed is a problem of its own, and the rest is fresh",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "settle\n",
      "memory/good.md": "period\n",
    });
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    const status = async (): Promise<unknown> => (await kit.memory.status())[0];
    await expect.poll(status, { timeout: 20_000 }).toMatchObject({ fresh: true, files: 2 });
    // Written while it is watched: the watch names them, and the comparison finds them again.
    await workspace.write({
      "memory/utf16.md": Buffer.from("\ufeffwide", "utf16le"),
      "memory/large.md": "x".repeat(1_048_577),
    });
    const problems = [
      { path: "memory/large.md", fault: { retryable: false, hint: expect.stringContaining("split it") } },
      { path: "memory/utf16.md", fault: { retryable: false, message: "memory/utf16.md is not valid UTF-8" } },
    ];
    await expect
      .poll(status, { timeout: 20_000 })
      .toMatchObject({ fresh: true, pending: 0, files: 2, problems });
    expect((await kit.memory.search({ query: "period" })).workspaces).toMatchObject([
      { fresh: true, reason: "" },
    ]);
    await workspace.write({ "memory/large.md": "small now\n" });
    await expect.poll(status, { timeout: 20_000 }).toMatchObject({ fresh: true, files: 3 });
  },
);
