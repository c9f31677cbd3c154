import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { proves } from "../support/proves.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { startGateway } from "../support/start-gateway.ts";
import { startNode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 180_000 };
const slowly = { timeout: 60_000, interval: 200 };

test(
  "a gateway that lost its folder is itself again from a backup: nodes, labels, revocations and the record",
  patience,
  async () => {
    await using place = await makeTempFolder();
    await using gateway = await startGateway();
    const inviteArgs = ["--label", "env=test"];
    await using node = await startNode({ gateway, alias: "kept", profile: "work", inviteArgs });
    {
      await using gone = await startNode({ gateway, alias: "gone" });
      await gateway.json(["nodes", "revoke", gone.alias]);
      await gone.ended;
    }
    const file = place.join("state.backup");
    expect(await gateway.json(["gateway", "backup", file])).toMatchObject({ file });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const size = (await stat(file)).size;
    const again = await gateway.cli(["gateway", "backup", file, "--json"]);
    expect(again).toMatchObject({ exitCode: 6, json: { error: { code: "ALREADY_EXISTS" } } });
    expect((await stat(file)).size).toBe(size);
    const nowhere = await gateway.cli(["gateway", "backup", place.join("none/x"), "--json"]);
    const hint = `mkdir -p ${place.join("none")}`;
    expect(nowhere).toMatchObject({ exitCode: 4, json: { error: { code: "NOT_FOUND", hint } } });
    expect((await readFile(file)).includes("PRIVATE KEY")).toBe(true);

    await gateway.kill("SIGKILL");
    await rm(`${gateway.home}/gateway`, { recursive: true });
    await gateway.json(["gateway", "restore", file]);
    await gateway.restart();
    const shown = async (): Promise<unknown> => await gateway.json(["nodes", "show", "kept"]);
    await expect.poll(shown, slowly).toMatchObject({
      id: node.nodeId,
      state: "online",
      labels: { env: "test" },
      profile: "work",
    });
    expect(await gateway.json(["nodes", "ls", "--state", "revoked"])).toMatchObject({
      nodes: [{ alias: "gone", state: "revoked" }],
    });
    expect(await gateway.json(["audit", "verify"])).toMatchObject({ ok: true });
  },
);

proves(
  "fleet.restore-refused-while-running",
  "a home whose gateway runs takes neither a restore nor a second gateway, and both say which process has it",
  patience,
  async () => {
    await using place = await makeTempFolder();
    await using gateway = await startGateway();
    const file = place.join("state.backup");
    await gateway.json(["gateway", "backup", file]);
    await writeFile(`${gateway.home}/gateway/config.yaml`, "limits:\n  heartbeatMs: 9000\n");
    const before = await stat(`${gateway.home}/gateway/state.db`);
    const held = { code: "CONFLICT", details: { pid: gateway.pid } };
    const refused = await gateway.cli(["gateway", "restore", file, "--json"]);
    expect(refused).toMatchObject({ exitCode: 6, json: { error: held } });
    await using second = spawnProgram(
      ["gateway", "run", "--json", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
      { home: gateway.home },
    );
    expect(await second.ended).toMatchObject({ exitCode: 6 });
    expect(JSON.parse(second.stdout())).toMatchObject({ error: held });
    expect((await stat(`${gateway.home}/gateway/state.db`)).ino).toBe(before.ino);
    expect(await readFile(`${gateway.home}/gateway/config.yaml`, "utf8")).toContain("9000");
    expect(await gateway.json(["gateway", "status"])).toMatchObject({ state: "ready" });
  },
);
