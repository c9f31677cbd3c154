import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 120_000;

interface Found {
  readonly hits: readonly Readonly<Record<string, unknown>>[];
  readonly workspaces: readonly Readonly<Record<string, unknown>>[];
}

proves(
  "memory.search-answer",
  "hits carry their place, digest and score, and every workspace how fresh its index is",
  { timeout },
  async () => {
    const text = `# Config\n\n${"filler line\n".repeat(200)}the settle period is 20 ms\n`;
    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "settle\n",
      "memory/config.md": text,
      "memory/other.md": "unrelated\n",
    });
    await using gateway = await startGateway();
    await using _ = await startNode({ gateway, workspaces: { app: workspace.path } });
    const found = (await gateway.json(["memory", "search", "settle period", "--wait-fresh"])) as Found;
    expect(found.hits.map(({ path }) => path)).toEqual(["memory/config.md", "MEMORY.md"]);
    const [best] = found.hits;
    expect(best).toEqual({
      node: "devbox",
      workspace: "devbox:/app",
      path: "memory/config.md",
      firstLine: expect.any(Number),
      lastLine: 203,
      digest: digestOf(text),
      score: expect.any(Number),
      scores: { keyword: expect.any(Number), vector: null, recency: 1, similarity: 0 },
      text: expect.stringContaining("the settle period is 20 ms"),
    });
    const lines = text.split("\n").slice(Number(best?.["firstLine"]) - 1, Number(best?.["lastLine"]));
    expect(best?.["text"]).toBe(lines.join("\n"));
    for (const { score } of found.hits) expect(score).toBeLessThanOrEqual(1);
    expect(found.workspaces).toMatchObject([
      {
        workspace: "devbox:/app",
        fresh: true,
        pending: 0,
        verifiedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      },
    ]);
    const age = Date.now() - Date.parse(String(found.workspaces[0]?.["verifiedAt"]));
    expect(age).toBeGreaterThanOrEqual(0);
    expect(age).toBeLessThan(60_000);
  },
);

proves(
  "memory.search-many-workspaces",
  "without a workspace all are searched, and one that does not answer is named beside the hits of the others",
  { timeout },
  async () => {
    await using first = await makeTempWorkspace({ "MEMORY.md": "needle of one\n" });
    await using second = await makeTempWorkspace({ "memory/two.md": "needle of two\n" });
    await using gateway = await startGateway();
    await using _ = await startNode({ gateway, alias: "boxa", workspaces: { app: first.path } });
    await using frozen = await startNode({ gateway, alias: "boxb", workspaces: { web: second.path } });
    const both = (await gateway.json(["memory", "search", "needle", "--wait-fresh"])) as Found;
    expect(both.hits.map(({ workspace, path }) => `${String(workspace)}/${String(path)}`).toSorted()).toEqual(
      ["boxa:/app/MEMORY.md", "boxb:/web/memory/two.md"],
    );
    expect(both.workspaces).toMatchObject([{ fresh: true }, { fresh: true }]);

    frozen.signal("SIGSTOP");
    try {
      await first.write({ "MEMORY.md": "needle of one, again\n" });
      const found = (await gateway.json(["memory", "search", "needle"])) as Found;
      expect(found.hits).toContainEqual(expect.objectContaining({ node: "boxa" }));
      const states = Object.fromEntries(found.workspaces.map((state) => [String(state["workspace"]), state]));
      expect(states["boxb:/web"]).toMatchObject({
        fresh: false,
        reason: expect.stringMatching(/^[a-z]+(_[a-z]+)*$/),
      });
    } finally {
      frozen.signal("SIGCONT");
    }
    const named = (await gateway.json(["memory", "search", "needle", "--workspace", "boxa:/app"])) as Found;
    expect(named.workspaces).toHaveLength(1);
  },
);

proves(
  "memory.get",
  "lines of a memory file come from its node, and what is not there is told",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\ntwo\nthree\nfour\n" });
    await using gateway = await startGateway();
    await using _ = await startNode({ gateway, workspaces: { app: workspace.path } });
    const get = (...args: readonly string[]): ReturnType<typeof gateway.cli> =>
      gateway.cli(["memory", "get", ...args]);
    await expect.poll(async () => (await get("devbox:/app/MEMORY.md")).exitCode, { timeout: 30_000 }).toBe(0);
    expect(await get("devbox:/app/MEMORY.md", "--from", "2", "--lines", "2")).toMatchObject({
      exitCode: 0,
      stdout: "two\nthree\n",
    });
    expect(await get("devbox:/app/memory/missing.md")).toMatchObject({ exitCode: 4, stdout: "" });
    expect(await get("devbox:/app/MEMORY.md", "--from", "0")).toMatchObject({ exitCode: 2, stdout: "" });
    const past = await get("devbox:/app/MEMORY.md", "--from", "9");
    expect(past).toMatchObject({ exitCode: 0, stdout: "" });
    expect(past.stderr).toMatch(/\b4 lines\b/);
  },
);
