import { copyFile, cp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultOf } from "../../support/cli-fault.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { inviteCode, startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const patience = { timeout: 180_000 };
const identityFiles = ["key.pem", "cert.pem", "gateway.json"] as const;

proves(
  "pairing.identity-files-agree",
  "an identity with a file gone or another node's is named with its repair, dials nobody and gets no new key",
  patience,
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    await using node = await startNode({ gateway });
    await using other = await startNode({ gateway, alias: "other" });
    await node.kill("SIGTERM");
    await other.kill("SIGTERM");
    const folder = join(node.home, "node/identity");
    const kept = join(node.home, "kept");
    await cp(folder, kept, { recursive: true });
    const dialled = proxy.counts.connections;
    for (const name of identityFiles) {
      const foreign = join(other.home, "node/identity", name);
      for (const ruin of [
        () => rm(join(folder, name)),
        () => copyFile(foreign, join(folder, name)),
      ] as const) {
        await ruin();
        const before = await readFile(join(folder, "key.pem"), "utf8").catch(() => "none");
        const run = faultOf(await node.cli(["node", "run", "--json"]));
        expect(run).toMatchObject({
          exitCode: 1,
          code: "INTEGRITY_FAILURE",
          retryable: false,
          details: { path: `identity/${name}` },
        });
        expect(run.message).toContain(`identity/${name}`);
        expect(run.hint).toContain("fairlead node join CODE --new-identity");
        expect(await readFile(join(folder, "key.pem"), "utf8").catch(() => "none")).toBe(before);
        await cp(kept, folder, { recursive: true });
      }
    }
    expect(proxy.counts.connections).toBe(dialled);

    // The command of the hint does repair it, and so does leaving.
    await rm(join(folder, "cert.pem"));
    const code = await inviteCode(gateway, ["--name", "mended"]);
    await using joined = spawnProgram(["node", "join", code, "--new-identity", "--json"], {
      home: node.home,
    });
    await joined.waitForLine((line) => line.includes('"event":"ready"'));
    await joined.kill("SIGTERM");
    await rm(join(folder, "key.pem"));
    const left = await node.cli(["node", "leave", "--json"]);
    expect({ exitCode: left.exitCode, json: left.json }).toMatchObject({
      exitCode: 7,
      json: { told: false },
    });
    expect(faultOf(await node.cli(["node", "run", "--json"]))).toMatchObject({ code: "NOT_FOUND" });
  },
);

proves(
  "pairing.one-process-a-home",
  "a second agent is refused by the name of the first; one that was killed leaves no lock, whoever has its id",
  patience,
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    const second = faultOf(await node.cli(["node", "run", "--json"]));
    expect(second).toMatchObject({
      exitCode: 6,
      code: "CONFLICT",
      details: { pid: node.pid, program: "fairlead node join" },
    });
    expect(second.message).toContain(String(node.pid));
    await node.kill("SIGKILL");
    // The id now belongs to a program that has nothing to do with this home.
    const note = join(node.home, "node/lock.json");
    const text = await readFile(note, "utf8");
    await writeFile(note, text.replace(String(node.pid), String(gateway.pid)));
    await node.restart();
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({ state: "online" });
  },
);

test(
  "a join that the gateway refuses leaves no key; one whose answer got lost goes on with its own",
  patience,
  async () => {
    await using kit = await startGatewayBehindProxy();
    const { gateway, proxy } = kit;
    await using node = await startNode({ gateway });
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--name", "second"]);
    const used = await inviteCode(gateway, ["--name", "third"]);
    {
      await using other = await makeTempFolder();
      await using first = spawnProgram(["node", "join", used, "--json"], { home: other.path });
      await first.waitForLine((line) => line.includes('"event":"joined"'));
    }
    const run = (text: string): ReturnType<typeof node.cli> =>
      node.cli(["node", "join", text, "--json"], { home: home.path, env: {} });
    expect(faultOf(await run(used))).toMatchObject({
      code: "JOIN_CODE_INVALID",
      details: { reason: "used" },
    });
    expect((await home.entries()).filter((name) => /key|identity/.test(name))).toEqual([]);

    proxy.swallow("down");
    const cut = spawnProgram(["node", "join", code, "--json"], { home: home.path });
    await expect
      .poll(async () => (await home.entries()).includes("node/identity.new/key.pem"), { timeout: 20_000 })
      .toBe(true);
    const key = await readFile(home.join("node/identity.new/key.pem"), "utf8");
    await cut[Symbol.asyncDispose]();
    proxy.mend();
    expect(faultOf(await run(used))).toMatchObject({ details: { reason: "used" } });
    await using joined = spawnProgram(["node", "join", code, "--json"], { home: home.path });
    await joined.waitForLine((line) => line.includes('"event":"ready"'));
    expect(await readFile(home.join("node/identity/key.pem"), "utf8")).toBe(key);
  },
);

test("an identity that cannot be read is never taken for none", patience, async () => {
  await using gateway = await startGateway();
  await using node = await startNode({ gateway });
  await node.kill("SIGTERM");
  const folder = join(node.home, "node/identity");
  await rename(folder, `${folder}.away`);
  // A link that leads to a good identity, and a file in its place: both are there, and neither is an identity.
  await writeFile(folder, "x");
  const code = await inviteCode(gateway, ["--name", "again"]);
  for (const args of [
    ["node", "run", "--json"],
    ["node", "join", code, "--json"],
  ]) {
    const { code: fault, exitCode } = faultOf(await node.cli(args));
    expect(fault).not.toBe("NOT_FOUND");
    expect(exitCode).toBe(1);
  }
  expect(await readFile(folder, "utf8")).toBe("x");
});
