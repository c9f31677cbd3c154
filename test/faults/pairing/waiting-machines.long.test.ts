import { expect } from "vitest";
import { createJoinReport } from "../../../node-agent/cli/join-report.ts";
import { readNodeStatus } from "../../../node-agent/config/status-file.ts";
import type { ApprovalWait } from "../../../node-agent/pairing/wait-for-approval.ts";
import { makePrivateFolder } from "../../../shared/identity/private-files.ts";
import { createLog } from "../../../shared/log/pino-log.ts";
import { createOutput } from "../../../shared/terminal/output.ts";
import { joinAs, startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { collectLines } from "../../support/collect-lines.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { listPending, startWaitingJoin } from "../../support/waiting-join.ts";

proves(
  ["pairing.retry-keeps-request-id", "pairing.pending-survives-gateway-restart"],
  "a request outlives the machine's process and the gateway's, and its approval admits the machine",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval"]);
    const ids = async (): Promise<readonly string[]> =>
      (await listPending(gateway)).requests.map(({ id }) => id);
    let requestId = "";
    {
      await using killed = await startWaitingJoin(code, { home: home.path });
      requestId = killed.requestId;
      await killed.kill("SIGKILL");
    }
    await using waiting = await startWaitingJoin(code, { home: home.path });
    expect(waiting.requestId).toBe(requestId);
    expect(await ids()).toEqual([requestId]);

    await gateway.kill("SIGKILL");
    await gateway.restart();
    expect(await ids()).toEqual([requestId]);
    expect((await gateway.cli(["nodes", "approve", requestId, "--name", "patient"])).exitCode).toBe(0);
    await waiting.waitForLine((line) => line.includes('"event":"ready"'));
    expect(await gateway.json(["nodes", "show", "patient"])).toMatchObject({ state: "online" });
    expect(await ids()).toEqual([]);
  },
);

const minuteMs = 60_000;

proves(
  "pairing.unapproved-log-bounded",
  "ten minutes without an answer, and with outages between, are told once a change",
  { timeout: 120_000 },
  async () => {
    const clock = new ManualClock(Date.now());
    await using place = await makeTempFolder();
    await using home = await makeTempFolder();
    const start = (listen?: string): Promise<PairingGateway> =>
      startPairingGateway({ clock, dir: place.join("gateway"), ...(listen === undefined ? {} : { listen }) });
    let gateway = await start();
    const { address } = gateway;
    const { code } = await gateway.pairing.invite({ requireApproval: true });
    await makePrivateFolder(home.join("node"));
    const written = collectLines();
    const report = await createJoinReport({
      dir: home.join("node"),
      version: "0.1.0",
      output: createOutput({ stdout: written.stream, stderr: written.stream, json: false, noColor: true }),
      log: createLog({ level: "debug", pretty: false, write: (line) => void written.stream.write(line) }),
      clock,
    });
    const changes: ApprovalWait[] = [];
    const stop = new AbortController();
    const joined = joinAs(code, home, {
      clock,
      signal: stop.signal,
      onWait: async (wait) => {
        changes.push(wait);
        await report.onWait(wait);
      },
    });
    const isAway = (): boolean => changes.at(-1)?.fault !== undefined;
    // What sleeps is woken second by second, with time between for what the network has to say.
    const until = async (isDone: () => boolean): Promise<void> =>
      await expect.poll(async () => (await clock.advance(1_000), isDone()), { timeout: 60_000 }).toBe(true);
    await expect.poll(() => changes.length).toBe(1);
    const began = clock.now();
    for (let outage = 1; outage <= 3; outage += 1) {
      const upUntil = began + outage * 3 * minuteMs;
      await until(() => clock.now() >= upUntil);
      await gateway[Symbol.asyncDispose]();
      await until(isAway);
      gateway = await start(address);
      await until(() => !isAway());
    }
    await until(() => clock.now() >= began + 10 * minuteMs);
    expect(changes.map(({ fault }) => fault?.code ?? "waiting")).toEqual([
      "waiting",
      ...Array.from({ length: 3 }, () => ["GATEWAY_UNREACHABLE", "waiting"]).flat(),
    ]);
    // The first change is told to people in four lines, each other one is a line of the log.
    const lines = written.lines();
    const told = lines.filter((line) => !line.startsWith("{"));
    expect(told).toHaveLength(4);
    expect(told.at(-1)).toBe(`fairlead nodes approve ${changes[0]?.requestId}`);
    expect(lines.length - told.length).toBe(changes.length - 1);
    expect(await readNodeStatus(home.join("node"))).toMatchObject({
      state: "waiting_for_approval",
      requestId: changes[0]?.requestId,
    });
    stop.abort(new Error("enough"));
    await expect(joined).rejects.toThrow("enough");
    await gateway[Symbol.asyncDispose]();
  },
);
