import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { isFault, toFaultJson } from "../../../shared/fault/fault.ts";
import { startEmbeddingServer } from "../../support/embedding-server.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { readLiveFiles } from "../../support/read-live-files.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { openTestProvider } from "../../support/test-provider.ts";
import { recordWorkerInput } from "../../support/worker-input.ts";

const timeout = 120_000;
const patience = { timeout: 60_000, interval: 100 };
const key = "sk-Test_0123456789abcdefghijklmnop";
const files = { "MEMORY.md": "the settle period is 20 ms\n", "memory/a.md": "the relay waits\n" };

/** Children of a process whose command line holds `word`. */
function childrenOf(parent: number, word: string): readonly number[] {
  return findProcesses(word).filter((pid) => {
    try {
      return Number(/\) \S+ (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))?.[1]) === parent;
    } catch {
      return false;
    }
  });
}

proves(
  "memory.no-credentials-on-nodes",
  "the embedding key is in no worker, message to a node, log, error, record or status, and the worker opens no index",
  { timeout },
  async () => {
    await using server = await startEmbeddingServer();
    // A provider that repeats in its refusals what was sent to it.
    server.fault = { kind: "status", status: 401 };
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace(files);
    const config = `embeddings:\n  provider: compatible\n  baseUrl: ${server.baseUrl}\n  model: test-model\n`;
    await using gateway = await startGateway({
      env: { FAIRLEAD_EMBEDDINGS_KEY: key, FAIRLEAD_LOG: "debug" },
      args: ["--config", await write(home.join("config.yaml"), config)],
    });
    await using node = await startNode({
      gateway,
      workspaces: { app: workspace.path },
      // Where both stand on one machine the agent may well inherit it.
      env: { FAIRLEAD_EMBEDDINGS_KEY: key, FAIRLEAD_LOG: "debug" },
    });
    const told: unknown[] = [];
    const status = async (): Promise<unknown> => {
      const json = await gateway.json(["memory", "status"]);
      told.push(json);
      return json;
    };
    await expect.poll(status, patience).toMatchObject({
      workspaces: [{ files: 2, missingVectors: 2, pending: 2, vectorsError: { code: "IO_ERROR" } }],
      vectors: {
        provider: "compatible",
        state: "unavailable",
        error: { details: { reason: "embedding_refused" } },
      },
    });
    expect(server.calls.some(({ authorization }) => authorization === `Bearer ${key}`)).toBe(true);
    told.push(await gateway.json(["memory", "search", "settle period"]));
    server.fault = undefined;
    await expect.poll(status, patience).toMatchObject({
      workspaces: [{ files: 2, missingVectors: 0, pending: 0 }],
      vectors: { state: "ready" },
    });
    told.push(await gateway.json(["memory", "search", "settle period", "--wait-fresh"]));

    await expect.poll(() => childrenOf(node.pid, "memory-worker").length, patience).toBe(1);
    const [worker = 0] = childrenOf(node.pid, "memory-worker");
    const environment = readFileSync(`/proc/${worker}/environ`, "latin1").split("\0").filter(Boolean);
    expect(environment.map((each) => each.slice(0, each.indexOf("="))).toSorted()).toEqual(["HOME", "PATH"]);
    expect(environment.join("\n")).not.toContain(key);
    expect(readFileSync(`/proc/${worker}/cmdline`, "latin1")).not.toContain(key);
    const open = readdirSync(`/proc/${worker}/fd`).map((descriptor) =>
      linkOf(`/proc/${worker}/fd/${descriptor}`),
    );
    expect(open.filter((path) => /\.(?:db|sqlite)/.test(path) || path.startsWith(gateway.home))).toEqual([]);

    told.push(await gateway.json(["audit", "query", "--limit", "1000"]));
    expect(JSON.stringify(told)).not.toContain(key);
    expect(gateway.logs()).toContain("embedding provider");
    expect(gateway.logs()).not.toContain(key);
    expect(node.logs()).not.toContain(key);
    for (const dir of [gateway.home, node.home]) {
      for (const { path, bytes } of await readLiveFiles(dir)) expect(bytes.includes(key), path).toBe(false);
    }
  },
);

proves(
  "memory.no-credentials-on-nodes",
  "nothing that goes to a node and into its worker holds a byte of the key, whatever the provider does",
  { timeout },
  async () => {
    await using server = await startEmbeddingServer();
    await using workspace = await makeTempWorkspace(files);
    using input = recordWorkerInput();
    await using kit = await openMemoryKit({
      provider: openTestProvider(server, { apiKey: key, timeoutMs: 5_000 }),
    });
    await kit.addNode("devbox", { app: workspace.path });
    for (const fault of [
      { kind: "status", status: 401 } as const,
      { kind: "status", status: 400 } as const,
      undefined,
    ]) {
      server.fault = fault;
      await workspace.write({ "memory/b.md": `more of it ${fault?.status ?? 0}\n` });
      const found = await kit.memory.search({ query: `more ${fault?.status ?? 0}`, waitFresh: true });
      expect(found.hits.map(({ path }) => path)).toContain("memory/b.md");
      await kit.memory.get({ workspaceId: "devbox-app", path: "memory/b.md" });
    }
    await expect
      .poll(async () => (await kit.memory.status())[0], patience)
      .toMatchObject({ fresh: true, missingVectors: 0 });
    // What was asked of the node went that way, and was heard.
    expect(kit.links.calls).toEqual(expect.arrayContaining([expect.stringMatching(/\/Read$/)]));
    expect(input.text()).toContain("memory/b.md");
    expect(input.text()).not.toContain(key);
  },
);

test("a key that cannot be had is told by its setting, before anything listens, and never by its bytes", async () => {
  await using home = await makeTempFolder();
  const run = async (lines: string, env: Readonly<Record<string, string>> = {}): Promise<string> => {
    const config = `embeddings:\n  provider: openai\n${lines}`;
    const error: unknown = await startGateway({
      env,
      args: ["--config", await write(home.join("c.yaml"), config)],
    }).then(
      async (gateway) => {
        await gateway[Symbol.asyncDispose]();
      },
      (reason: unknown) => reason,
    );
    return isFault(error) ? JSON.stringify(toFaultJson(error)) : String(error);
  };
  expect(await run("  apiKeyFile: missing.txt\n")).toContain("embeddings.apiKeyFile");
  await writeFile(home.join("two.txt"), `${key}\n${key}\n`);
  const two = await run("  apiKeyFile: two.txt\n");
  expect(two).toContain("embeddings.apiKeyFile");
  expect(two).not.toContain(key);
  const inAddress = await run(`  baseUrl: https://user:${key}@127.0.0.1/v1\n`);
  expect(inAddress).toContain("embeddings.baseUrl");
  expect(inAddress).not.toContain(key);
}, 60_000);

async function write(path: string, text: string): Promise<string> {
  await writeFile(path, text);
  return path;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
