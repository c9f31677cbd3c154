import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf, memberOf } from "../../support/cli-fault.ts";
import { endSupervisors } from "../../support/end-supervisors.ts";
import { startGatewayBehindProxy } from "../../support/gateway-behind-proxy.ts";
import { proves } from "../../support/proves.ts";
import { runCli } from "../../support/run-cli.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { canRunSystemd, startUserSystemd } from "../../support/user-systemd.ts";

proves(
  ["pairing.revoked-node-stops", "pairing.unknown-identity-stops"],
  "systemd starts the installed agent again after a crash, and never after its identity has ended",
  { timeout: 600_000, skip: !canRunSystemd() },
  async () => {
    await using stack = new AsyncDisposableStack();
    const { gateway, proxy } = stack.use(await startGatewayBehindProxy());
    const home = stack.use(await makeTempFolder());
    const systemd = stack.use(await startUserSystemd());
    stack.defer(() => endSupervisors(home.path));
    const cli = (...args: readonly string[]): ReturnType<typeof runCli> =>
      runCli([...args, "--json"], { home: home.path, env: systemd.env, timeoutMs: 120_000 });

    const code = await inviteCode(gateway, ["--name", "devbox"]);
    const joined = await cli("node", "join", code, "--service", "--scope", "user");
    expect({ joined, exitCode: joined.exitCode }).toMatchObject({ exitCode: 0 });
    const installed = joined.events.at(-1);
    expect(installed).toMatchObject({ scope: "user", state: "active" });
    const service = String(memberOf(installed, "service"));
    const property = (name: string): Promise<string> =>
      systemd.control(["show", `--property=${name}`, "--value", service]);
    const stateAtGateway = async (): Promise<unknown> =>
      memberOf(await gateway.json(["nodes", "show", "devbox"]), "state");
    await expect.poll(stateAtGateway, { timeout: 60_000 }).toBe("online");

    // What its owner adds stays when it is installed anew. Here there is no journal to write to.
    const log = home.join("service.log");
    await mkdir(join(systemd.unitFolder, `${service}.service.d`));
    await writeFile(
      join(systemd.unitFolder, `${service}.service.d`, "log.conf"),
      `[Service]\nStandardError=append:${log}\n`,
    );
    expect((await cli("node", "install", "--scope", "user")).exitCode).toBe(0);
    await expect.poll(stateAtGateway, { timeout: 60_000 }).toBe("online");

    // A crash is mended.
    await systemd.control(["kill", "--kill-whom=main", "--signal=KILL", service]);
    await expect.poll(() => property("NRestarts"), { timeout: 60_000 }).toBe("1");
    await expect.poll(stateAtGateway, { timeout: 60_000 }).toBe("online");

    // A gateway that has lost the node: at most three tries, and that was all.
    const forget = (work: (db: DatabaseSync) => void): void => {
      const db = new DatabaseSync(join(gateway.home, "gateway/state.db"));
      work(db);
      db.close();
    };
    await gateway.kill("SIGTERM");
    const rows: Readonly<Record<string, unknown>>[] = [];
    forget((db) => {
      rows.push({ ...db.prepare("SELECT * FROM nodes WHERE alias = 'devbox'").get() });
      db.exec("DELETE FROM nodes WHERE alias = 'devbox'");
    });
    await cli("node", "stop");
    expect(rows).toHaveLength(1);
    await gateway.restart();
    const dialled = proxy.counts.connections;
    await writeFile(log, "");
    expect((await cli("node", "start")).exitCode).toBe(0);
    await expect.poll(() => property("ActiveState"), { timeout: 60_000 }).toBe("failed");
    const unknown = await cli("node", "status");
    expect({ exitCode: unknown.exitCode, state: memberOf(unknown.json, "state") }).toEqual({
      exitCode: 3,
      state: "IDENTITY_UNKNOWN",
    });
    expect(memberOf(unknown.json, "nextStep")).toBe("fairlead node join CODE");
    await systemClock.sleep(120_000);
    expect(proxy.counts.connections - dialled).toBeLessThanOrEqual(3);
    expect((await readFile(log, "utf8")).trim().split("\n").length).toBeLessThanOrEqual(10);
    expect([await property("ExecMainStatus"), await property("NRestarts")]).toEqual(["3", "0"]);

    // It joins again by its old key; then it is revoked while it is linked.
    const anew = await inviteCode(gateway, ["--name", "anew"]);
    const again = await cli("node", "join", anew, "--service", "--scope", "user");
    expect(again.exitCode).toBe(0);
    const state = async (): Promise<unknown> =>
      memberOf(await gateway.json(["nodes", "show", "anew"]), "state");
    await expect.poll(state, { timeout: 60_000 }).toBe("online");
    const before = proxy.counts.connections;
    expect((await gateway.cli(["nodes", "revoke", "anew"])).exitCode).toBe(0);
    await expect.poll(() => property("ActiveState"), { timeout: 60_000 }).toBe("failed");
    expect(await property("ExecMainStatus")).toBe("3");
    // Longer than a service waits before its next start.
    await systemClock.sleep(12_000);
    expect([await property("SubState"), await property("NRestarts")]).toEqual(["failed", "0"]);
    expect(proxy.counts.connections).toBe(before);

    // Started by hand it asks once, and says what to do.
    const byHand = await cli("node", "run");
    expect(faultOf(byHand)).toMatchObject({ exitCode: 3, code: "IDENTITY_REVOKED" });
    expect(faultOf(byHand).hint).toContain("fairlead node join CODE");
    expect(proxy.counts.connections - before).toBeLessThanOrEqual(1);

    expect((await cli("node", "uninstall")).exitCode).toBe(0);
    expect(faultOf(await cli("node", "start"))).toMatchObject({ exitCode: 4, code: "NOT_FOUND" });
  },
);

test(
  "a gateway runs as a service, comes back after a crash, and stays away once it is stopped",
  { timeout: 300_000, skip: !canRunSystemd() },
  async () => {
    await using home = await makeTempFolder();
    await using systemd = await startUserSystemd();
    const cli = (...args: readonly string[]): ReturnType<typeof runCli> =>
      runCli([...args, "--json"], { home: home.path, env: systemd.env, timeoutMs: 120_000 });
    const answers = async (): Promise<number | null> => (await cli("gateway", "status")).exitCode;

    const free = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    const installed = await cli("gateway", "install", "--scope", "user", ...free);
    expect({ installed, exitCode: installed.exitCode }).toMatchObject({ exitCode: 0 });
    const service = String(memberOf(installed.json, "service"));
    await expect.poll(answers, { timeout: 60_000 }).toBe(0);
    await systemd.control(["kill", "--kill-whom=main", "--signal=KILL", service]);
    const restarts = (): Promise<string> =>
      systemd.control(["show", "--property=NRestarts", "--value", service]);
    await expect.poll(restarts, { timeout: 60_000 }).toBe("1");
    await expect.poll(answers, { timeout: 60_000 }).toBe(0);

    const stopped = await cli("gateway", "stop");
    expect(stopped.json).toMatchObject({ service, state: "inactive", pid: null, lastStatus: 0 });
    expect(await answers()).toBe(5);
    expect((await cli("gateway", "start")).json).toMatchObject({ state: "active" });
    const gone = await cli("gateway", "uninstall");
    expect(gone.json).toMatchObject({ service, installed: false });
    expect(await answers()).toBe(5);
  },
);
