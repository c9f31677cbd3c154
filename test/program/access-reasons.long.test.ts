import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { proves } from "../support/proves.ts";
import { startGateway } from "../support/start-gateway.ts";
import { startNode } from "../support/start-node.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

proves(
  "files.access-reasons",
  "a workspace that cannot be reached says why, what to do, and whether it may come back",
  { timeout: 240_000 },
  async () => {
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    await using gateway = await startGateway();
    await using node = await startNode({
      gateway,
      workspaces: { app: workspace.path, other: workspace.path },
    });
    const reasonOf = async (name: string): Promise<string> => {
      const words = ["files", "stat", `${node.nodeId}:/${name}/a.txt`, "--json"];
      const { exitCode, json } = await gateway.cli(words, { timeoutMs: 60_000 });
      if (exitCode === 0) return "available";
      const { error } = json as { readonly error: Refusal };
      const { code, hint, retryable, details } = error;
      expect([exitCode, code, typeof hint]).toEqual([5, "WORKSPACE_ACCESS_UNAVAILABLE", "string"]);
      expect(hint.length).toBeGreaterThan(10);
      expect([details.reason, retryable]).toEqual([details.reason, details.reason !== "revoked"]);
      return details.reason;
    };
    const becomes = async (name: string, reason: string): Promise<void> => {
      await expect.poll(() => reasonOf(name), { timeout: 60_000, interval: 200 }).toBe(reason);
    };
    const file = join(node.home, "node", "config.yaml");
    const text = await readFile(file, "utf8");
    // A folder that is not there yet, and one that is exported no longer.
    const without = text
      .replace("name: other", "name: later")
      .replace(/(name: later\n {4}dir: ).*/, `$1${join(workspace.path, "not-there")}`);
    expect(without).not.toBe(text);
    await writeFile(file, without);
    await becomes("later", "not_started");
    await becomes("other", "stopped");
    await becomes("app", "available");
    await gateway.json(["nodes", "drain", node.nodeId]);
    await becomes("app", "draining");
    await gateway.json(["nodes", "undrain", node.nodeId]);
    await becomes("app", "available");
    process.kill(node.pid, "SIGTERM");
    await node.ended;
    await becomes("app", "node_offline");
    await gateway.json(["nodes", "revoke", node.nodeId]);
    await becomes("app", "revoked");
  },
);

interface Refusal {
  readonly code: string;
  readonly hint: string;
  readonly retryable: boolean;
  readonly details: { readonly reason: string };
}
