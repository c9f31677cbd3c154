import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listOf, memberOf } from "../../support/cli-fault.ts";
import { proves } from "../../support/proves.ts";
import { type Program, spawnProgram } from "../../support/spawn-program.ts";
import { grantRead } from "../../support/standing-grant.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { inviteCode, startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const patience = { timeout: 180_000 };
const slowly = { timeout: 40_000, interval: 200 };

async function copyHome(node: TestNode): Promise<TempFolder> {
  const copy = await makeTempFolder();
  await cp(join(node.home, "node"), copy.join("node"), {
    recursive: true,
    // The agent runs: what it is about to rename may be gone when it is copied.
    filter: (source) => !/\.(sock|new)$|-(wal|shm|journal)$/.test(source),
  });
  return copy;
}

async function show(gateway: TestGateway): Promise<unknown> {
  return await gateway.json(["nodes", "show", "devbox"]);
}

async function statusIn(home: string): Promise<unknown> {
  await using status = spawnProgram(["node", "status", "--json"], { home });
  await status.ended;
  return JSON.parse(status.stdout()) as unknown;
}

function startCopy(home: string): Program {
  return spawnProgram(["node", "run", "--json"], { home });
}

test("a copied home is refused while the original is linked, and both are named", patience, async () => {
  await using gateway = await startGateway();
  await using workspace = await makeTempWorkspace({});
  await using node = await startNode({
    gateway,
    profile: "full",
    exec: "full",
    workspaces: { app: `${workspace.path}:rw` },
  });
  const before = await show(gateway);
  await using copy = await copyHome(node);
  await using call = spawnProgram(
    ["tools", "call", "devbox__exec", "--json", "--args", '{"command":"touch began; sleep 6; echo done"}'],
    { home: gateway.home },
  );
  await expect.poll(() => workspace.has("began"), slowly).toBe(true);
  await using clone = startCopy(copy.path);
  await expect
    .poll(() => statusIn(copy.path), slowly)
    .toMatchObject({ code: "CONFLICT", reason: "identity_in_use" });
  expect(await statusIn(copy.path)).toMatchObject({
    nextStep: expect.stringContaining("fairlead node join CODE --new-identity"),
  });
  // The original goes on as if nothing had happened.
  expect((await call.ended).exitCode).toBe(0);
  expect(call.stdout()).toContain("done");
  const after = await show(gateway);
  expect(memberOf(after, "state")).toBe("online");
  expect(memberOf(after, "generation")).toBe(memberOf(before, "generation"));
  const reported = memberOf(after, "clone");
  expect(reported).toMatchObject({
    kind: "refused",
    kept: { bootId: expect.stringMatching(/./), address: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
    other: { bootId: expect.stringMatching(/./), address: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
  });
  const [kept, other] = ["kept", "other"].map((name) => memberOf(reported, name));
  expect(memberOf(kept, "bootId")).not.toBe(memberOf(other, "bootId"));
  for (const one of [kept, other])
    expect(Math.abs(Date.now() - Date.parse(String(memberOf(one, "at"))))).toBeLessThan(60_000);
  const people = (await gateway.cli(["nodes", "show", "devbox"])).stdout;
  for (const one of [kept, other])
    for (const name of ["bootId", "address"]) expect(people).toContain(String(memberOf(one, name)));
  const records = listOf(await gateway.json(["audit", "query", "--node", "devbox"]), "records").filter(
    (record) => memberOf(record, "action") === "nodes.clone",
  );
  // One record of the pair, however often the copy tries.
  expect(records).toMatchObject([
    {
      outcome: "CONFLICT",
      details: {
        kept: {
          bootId: memberOf(kept, "bootId"),
          address: memberOf(kept, "address"),
          at: expect.any(String),
        },
        other: { bootId: memberOf(other, "bootId"), at: expect.any(String) },
      },
    },
  ]);
  expect(clone.pid).toBeGreaterThan(0);
});

proves(
  "pairing.copied-home-way-back",
  "a copied home joins as another node with a key of its own, and the original is not touched",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    await using node = await startNode({
      gateway,
      profile: "work",
      inviteArgs: ["--label", "region=eu"],
      workspaces: { app: workspace.path },
    });
    const grant = await grantRead(gateway, "devbox:/app/a.txt");
    await using copy = await copyHome(node);
    const key = await readFile(join(node.home, "node/identity/key.pem"), "utf8");
    const certificate = await readFile(join(node.home, "node/identity/cert.pem"), "utf8");
    const before = await show(gateway);
    {
      await using clone = startCopy(copy.path);
      await expect.poll(() => statusIn(copy.path), slowly).toMatchObject({ code: "CONFLICT" });
      await clone.kill("SIGTERM");
    }
    const code = await inviteCode(gateway, ["--name", "second"]);
    await using joined = spawnProgram(["node", "join", code, "--new-identity", "--json"], {
      home: copy.path,
    });
    const ready: unknown = JSON.parse(await joined.waitForLine((line) => line.includes('"event":"ready"')));
    expect(memberOf(ready, "nodeId")).not.toBe(node.nodeId);
    expect(memberOf(ready, "alias")).toBe("second");
    expect(await readFile(copy.join("node/identity/key.pem"), "utf8")).not.toBe(key);
    const after = await show(gateway);
    for (const name of ["id", "state", "generation", "certificateExpiresAt", "profile", "labels"])
      expect(memberOf(after, name)).toEqual(memberOf(before, name));
    expect(await readFile(join(node.home, "node/identity/key.pem"), "utf8")).toBe(key);
    expect(await readFile(join(node.home, "node/identity/cert.pem"), "utf8")).toBe(certificate);
    expect(await gateway.json(["nodes", "show", "second"])).toMatchObject({ state: "online" });
    expect(await grant.list()).toEqual([grant.shown]);
    expect(await grant.readsAt("devbox:/app/a.txt")).toBe(true);
  },
);

test(
  "a copy that comes while the original is away is taken, and told apart once both went on",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    await node.kill("SIGTERM");
    await using copy = await copyHome(node);
    await node.restart();
    await node.kill("SIGTERM");
    await node.restart();
    await node.kill("SIGTERM");
    expect(memberOf(await show(gateway), "clone")).toBeNull();
    await using clone = startCopy(copy.path);
    await clone.waitForLine((line) => line.includes('"event":"ready"'));
    expect(await show(gateway)).toMatchObject({ state: "online", clone: { kind: "suspected", count: 1 } });
    // A gateway that starts anew has not forgotten it.
    await gateway.restart();
    expect(await show(gateway)).toMatchObject({ clone: { kind: "suspected" } });
  },
);
