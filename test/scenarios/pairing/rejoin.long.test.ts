import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import { expect } from "vitest";
import { memberOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { lapseCertificate } from "../../support/lapsed-certificate.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { grantRead } from "../../support/standing-grant.ts";
import type { TestGateway } from "../../support/start-gateway.ts";
import { inviteCode, startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

type Row = Readonly<Record<string, SQLOutputValue>>;

/** Works on the state of a gateway that is stopped meanwhile. */
async function withState(gateway: TestGateway, work: (db: DatabaseSync) => void): Promise<void> {
  await gateway.kill("SIGTERM");
  const db = new DatabaseSync(join(gateway.home, "gateway/state.db"));
  work(db);
  db.close();
  await gateway.restart();
}

function takeRow(db: DatabaseSync, id: string): Row {
  const row = db.prepare("SELECT * FROM nodes WHERE id = ?").get(id);
  if (!row) throw new Error(`there is no node ${id}`);
  db.prepare("DELETE FROM nodes WHERE id = ?").run(id);
  return row;
}

function putRow(db: DatabaseSync, row: Row): void {
  const names = Object.keys(row);
  const places = names.map(() => "?").join(", ");
  db.prepare(`INSERT INTO nodes (${names.join(", ")}) VALUES (${places})`).run(...Object.values(row));
}

/** Runs the agent until its identity ends it; how, and what it wrote. */
async function endOf(node: TestNode): Promise<{ readonly code: unknown; readonly lines: number }> {
  const run = await node.cli(["node", "run", "--json"], { timeoutMs: 60_000 });
  expect(run.exitCode).toBe(3);
  const error = memberOf(run.json, "error");
  expect(memberOf(error, "hint")).toContain("fairlead node join CODE");
  const status = await node.cli(["node", "status", "--json"]);
  expect({ exitCode: status.exitCode, state: memberOf(status.json, "state") }).toEqual({
    exitCode: 3,
    state: memberOf(error, "code"),
  });
  return {
    code: memberOf(error, "code"),
    lines: run.stderr.split("\n").filter((line) => line !== "").length,
  };
}

interface Rejoined {
  readonly nodeId: unknown;
  readonly alias: unknown;
  readonly said: string;
}

/** `node join` with a code for another alias, label and profile; `look` while it is linked. */
async function rejoin(
  gateway: TestGateway,
  node: TestNode,
  { alias, look }: { readonly alias: string; readonly look?: () => Promise<void> },
): Promise<Rejoined> {
  const code = await inviteCode(gateway, ["--name", alias, "--label", "region=us", "--profile", "full"]);
  await using joined = spawnProgram(["node", "join", code, "--json"], { home: node.home });
  const ready: unknown = JSON.parse(await joined.waitForLine((line) => line.includes('"event":"ready"')));
  await look?.();
  const { exitCode } = await joined.kill("SIGTERM");
  expect(exitCode).toBe(0);
  return { nodeId: memberOf(ready, "nodeId"), alias: memberOf(ready, "alias"), said: joined.stderr() };
}

proves(
  "pairing.rejoin-after-terminal-state",
  "an expired or unknown identity enrols its key again and keeps what is the node's; a revoked one gets a new key",
  { timeout: 300_000 },
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    await using node = await startNode({
      gateway,
      profile: "work",
      inviteArgs: ["--label", "region=eu"],
      workspaces: { app: workspace.path },
    });
    const grant = await grantRead(gateway, "devbox:/app/a.txt");
    const keepsGrant = async (): Promise<void> => {
      expect(await grant.list()).toEqual([grant.shown]);
      expect(await grant.readsAt("devbox:/app/a.txt")).toBe(true);
    };
    await node.kill("SIGTERM");
    const keyOf = async (): Promise<string> =>
      await readFile(join(node.home, "node/identity/key.pem"), "utf8");
    const key = await keyOf();
    const kept = { id: node.nodeId, alias: "devbox", labels: { region: "eu" }, profile: "work" };

    await lapseCertificate({ gatewayHome: gateway.home, nodeHome: node.home, days: 91 });
    expect((await endOf(node)).code).toBe("IDENTITY_EXPIRED");
    expect(await rejoin(gateway, node, { alias: "other", look: keepsGrant })).toMatchObject({
      nodeId: node.nodeId,
      alias: "devbox",
    });
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject(kept);
    expect(await keyOf()).toBe(key);

    // Forgotten, and remembered again before the machine comes back.
    const rows: Row[] = [];
    await withState(gateway, (db) => void rows.push(takeRow(db, node.nodeId)));
    const dialled = proxy.counts.connections;
    const unknown = await endOf(node);
    expect(unknown.code).toBe("IDENTITY_UNKNOWN");
    expect(unknown.lines).toBeLessThanOrEqual(10);
    expect(proxy.counts.connections - dialled).toBeLessThanOrEqual(3);
    await withState(gateway, (db) => rows.forEach((row) => putRow(db, row)));
    expect(await rejoin(gateway, node, { alias: "another", look: keepsGrant })).toMatchObject({
      nodeId: node.nodeId,
      alias: "devbox",
    });
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject(kept);
    expect(await keyOf()).toBe(key);

    // Forgotten for good: the same key is a node of its own.
    await withState(gateway, (db) => void takeRow(db, node.nodeId));
    expect((await endOf(node)).code).toBe("IDENTITY_UNKNOWN");
    const anew = await rejoin(gateway, node, { alias: "anew" });
    expect(anew).toMatchObject({ alias: "anew" });
    expect(anew.nodeId).not.toBe(node.nodeId);
    expect(await keyOf()).toBe(key);

    expect((await gateway.cli(["nodes", "revoke", "anew"])).exitCode).toBe(0);
    expect((await endOf(node)).code).toBe("IDENTITY_REVOKED");
    const last = await rejoin(gateway, node, { alias: "last" });
    expect(last.said).toContain("joins with a new key");
    expect(last.nodeId).not.toBe(anew.nodeId);
    expect(await keyOf()).not.toBe(key);
  },
);
