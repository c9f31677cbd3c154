import { chmod, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultOf, listOf } from "../support/cli-fault.ts";
import { runCli } from "../support/run-cli.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { startGateway } from "../support/start-gateway.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

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

    // The files prove themselves without the gateway, and one that was altered is not passed over at the next start.
    await gateway.kill("SIGTERM");
    expect(await gateway.json(["audit", "verify"])).toMatchObject({ ok: true, first: 1, records: 5 });
    const file = join(gateway.home, "gateway/audit/000001.jsonl");
    await writeFile(file, (await readFile(file, "utf8")).replace("coder", "croak"));
    const altered = { code: "INTEGRITY_FAILURE", details: { record: 3, path: "audit/000001.jsonl" } };
    expect(faultOf(await gateway.cli(["audit", "verify", "--json"]))).toMatchObject(altered);
    await gateway.restart();
    await expect.poll(() => gateway.logs()).toContain("does not fit from record 3 on");
    expect(faultOf(await gateway.cli(["audit", "verify", "--json"]))).toMatchObject(altered);
  },
);

test(
  "a gateway whose state is taken away ends with the reason, and one whose key is open to others does not start",
  { timeout: 120_000 },
  async () => {
    await using home = await makeTempFolder();
    const args = ["gateway", "run", "--json", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    {
      await using gateway = spawnProgram(args, { home: home.path });
      await gateway.waitForLine((line) => line.includes("ready"));
      await gateway.kill("SIGTERM");
    }
    const key = home.join("gateway/authority/key.pem");
    await chmod(key, 0o644);
    expect(faultOf(await runCli(args, { home: home.path }))).toMatchObject({
      exitCode: 3,
      code: "POLICY_DENIED",
      hint: expect.stringContaining(`chmod 600 ${key}`) as unknown,
    });
    await chmod(key, 0o600);
    await using gateway = spawnProgram(args, { home: home.path });
    await gateway.waitForLine((line) => line.includes("ready"));
    await rm(home.join("gateway"), { recursive: true });
    expect((await gateway.ended).exitCode).toBe(1);
    expect(gateway.stdout()).toContain("state.db was removed or replaced");

    // Without its state there is nothing to prove.
    const nothing = await runCli(["audit", "verify", "--json"], { home: home.path });
    expect(faultOf(nothing)).toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  },
);
