import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

interface Found {
  readonly hits: readonly Readonly<Record<string, unknown>>[];
  readonly workspaces: readonly Readonly<Record<string, unknown>>[];
}

proves(
  "memory.offline-search",
  "an offline node's index answers and says so, reads and writes fail, and after a revocation nothing of it is found",
  { timeout: 120_000 },
  async () => {
    await using planted = await makeTempWorkspace({
      "MEMORY.md": "needle of the gateway\n",
      "memory/a.md": "needle of the gateway\n",
    });
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "needle of the node\n" });
    await using gateway = await startGateway();
    await using node = await startNode({
      gateway,
      workspaces: { app: `${workspace.path}:rw` },
      profile: "work",
    });
    const here = { cwd: planted.path };
    const first = (await gateway.json(["memory", "search", "needle", "--wait-fresh"], here)) as Found;
    expect(first.workspaces).toMatchObject([{ fresh: true }]);
    // A machine that does not answer at all: the deadline brings what is there.
    node.signal("SIGSTOP");
    const patience = ["--wait-fresh", "--deadline", "1500ms"];
    const frozen = (await gateway.json(["memory", "search", "needle", ...patience], here)) as Found;
    node.signal("SIGCONT");
    expect(frozen).toMatchObject({ hits: [{ node: "devbox" }], workspaces: [{ fresh: false }] });
    await node.kill("SIGTERM");

    const away = (await gateway.json(["memory", "search", "needle", "--wait-fresh"], here)) as Found;
    expect(away.hits).toMatchObject([{ node: "devbox", text: "needle of the node" }]);
    expect(away.workspaces).toMatchObject([
      { fresh: false, reason: "node_offline", verifiedAt: expect.any(String) },
    ]);

    const calls = [
      ["memory", "get", "devbox:/app/MEMORY.md"],
      ["tools", "call", "memory_get", "--args", '{"path":"MEMORY.md","workspace":"devbox:/app"}'],
      ["files", "put", planted.join("MEMORY.md"), "devbox:/app/MEMORY.md", "--if-match", "any"],
    ];
    for (const args of calls) {
      const result = await gateway.cli([...args, "--json"], here);
      expect(result.exitCode, args.join(" ")).toBe(5);
      expect(result.json, args.join(" ")).toMatchObject({ error: { code: "WORKSPACE_ACCESS_UNAVAILABLE" } });
    }
    await gateway.json(["nodes", "revoke", "devbox"], here);
    const revoked = (await gateway.json(["memory", "search", "needle"], here)) as Found;
    expect(revoked.hits).toEqual([]);
  },
);
