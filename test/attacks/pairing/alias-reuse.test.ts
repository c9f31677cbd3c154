import { expect } from "vitest";
import { listOf, memberOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { grantRead } from "../../support/standing-grant.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

proves(
  "pairing.alias-reuse-carries-no-rights",
  "a node that gets the alias of a revoked one is another node, and what was allowed there is not allowed here",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    const start = (): Promise<TestNode> =>
      startNode({ gateway, profile: "work", exec: "ask", workspaces: { app: `${workspace.path}:rw` } });
    const command = ["devbox__exec", "--args", '{"command":"touch done"}', "--no-wait", "--json"];
    const call = (): Promise<CliResult> => gateway.cli(["tools", "call", ...command]);
    const askedFor = (result: CliResult): string => {
      expect(result).toMatchObject({ exitCode: 3, json: { error: { code: "APPROVAL_REQUIRED" } } });
      return memberOf(memberOf(memberOf(result.json, "error"), "details"), "approvalId") as string;
    };
    await using old = await start();
    const session = memberOf(
      await gateway.json(["sessions", "open", "--agent", "coder", "--workspace", "devbox:/app"]),
      "id",
    ) as string;
    const grant = await grantRead(gateway, "devbox:/app/a.txt");
    expect(grant.shown).toMatchObject({ nodeId: old.nodeId });
    const approvalId = askedFor(await call());
    expect((await gateway.cli(["approvals", "allow", approvalId])).exitCode).toBe(0);
    expect((await gateway.cli(["nodes", "revoke", "devbox"])).exitCode).toBe(0);
    expect((await old.ended).exitCode).toBe(3);

    await using fresh = await start();
    expect(fresh.nodeId).not.toBe(old.nodeId);
    expect(askedFor(await call())).not.toBe(approvalId);
    expect(await workspace.has("done")).toBe(false);
    expect(await grant.readsAt("devbox:/app/a.txt")).toBe(false);
    const read = await gateway.cli([
      "tools",
      "call",
      "read",
      "--session",
      session,
      "--args",
      '{"path":"a.txt"}',
      "--no-wait",
      "--json",
    ]);
    expect(read.exitCode).not.toBe(0);
    expect(read.stdout).not.toContain('"a"');
    // The old one is still known by its id, and is revoked.
    expect(await gateway.json(["nodes", "show", old.nodeId])).toMatchObject({ state: "revoked" });
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({ id: fresh.nodeId });
    expect(listOf(await gateway.json(["nodes", "ls"]), "nodes")).toHaveLength(1);
  },
);
