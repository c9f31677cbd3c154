import { expect, test } from "vitest";
import { listOf } from "../support/cli-fault.ts";
import { startGateway } from "../support/start-gateway.ts";

test(
  "what an administrator changes and what is refused is in the record, also after a kill, and the record proves itself",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await gateway.json(["invite", "--name", "devbox", "--profile", "work"]);
    await gateway.json(["tokens", "create", "--agent", "coder"]);
    expect((await gateway.cli(["nodes", "revoke", "nobody"])).exitCode).toBe(4);
    await gateway.kill("SIGKILL");
    await gateway.restart();
    const records = listOf(await gateway.json(["audit", "query"]), "records");
    expect(records).toMatchObject([
      { sequence: 1, actor: "gateway", action: "gateway.start", outcome: "ok" },
      {
        actor: "user:local",
        address: "local",
        action: "codes.create",
        outcome: "ok",
        after: { alias: "devbox", profile: "work" },
      },
      { actor: "user:local", action: "tokens.create", outcome: "ok", after: { agent: "coder" } },
      { actor: "user:local", action: "nodes.revoke", target: "node:nobody", outcome: "NOT_FOUND" },
      { action: "gateway.start" },
    ]);
    // Neither the code nor the token's text.
    expect(JSON.stringify(records)).not.toMatch(/flt_|fairlead node join/);
    expect(listOf(await gateway.json(["audit", "query", "--action", "tokens"]), "records")).toHaveLength(1);
    expect(await gateway.json(["audit", "verify"])).toMatchObject({ ok: true, first: 1, records: 5 });
  },
);
