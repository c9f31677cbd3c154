import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { initialStatus, type LinkStatus } from "../../../node-agent/link/link-status.ts";
import { stuckAfterMs, watchDialler } from "../../../node-agent/link/watch-dialler.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";

const stuckTimers = fileURLToPath(new URL("../../fixtures/programs/stuck-timers.mjs", import.meta.url));

proves(
  "link.stuck-dialler-ends",
  "an agent whose dialler is lost ends with exit 1, and says why",
  { timeout: 90_000 },
  async () => {
    await using gateway = await startGateway();
    await using node = await startNode({ gateway });
    await node.kill("SIGTERM");
    await gateway.kill("SIGTERM");
    const program = spawnProgram(["node", "run"], {
      home: node.home,
      nodeArgs: ["--import", stuckTimers],
    });
    await using _program = program;
    const { exitCode } = await program.ended;
    expect(exitCode).toBe(1);
    expect(program.stderr()).toContain("the link was down for 120 s and nothing was tried");
  },
);

test("only time in which nothing is tried and nothing is planned counts", async () => {
  const clock = new ManualClock();
  let sleptMs = 0;
  const machine = {
    now: () => clock.now() + sleptMs,
    sleep: clock.sleep.bind(clock),
    after: clock.after.bind(clock),
  };
  const status = { ...initialStatus(clock.now()), state: "waiting" as LinkStatus["state"] };
  const held = { status: status as LinkStatus };
  const stop = new AbortController();
  let stuck: unknown;
  const watching = watchDialler({ status: () => held.status, clock: machine, signal: stop.signal }).then(
    (fault) => {
      stuck = fault;
    },
  );
  const wait = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 1000) await clock.advance(1000);
  };
  // A wait that was announced is none, however long.
  held.status = { ...status, nextAttemptMs: clock.now() + 600_000 };
  await wait(300_000);
  // Linked, and over for good.
  for (const state of ["online", "draining", "stopped"] as const) {
    held.status = { ...status, state };
    await wait(150_000);
  }
  // Attempts that follow each other.
  for (let attempt = 0; attempt < 10; attempt += 1) {
    held.status = { ...status, state: "connecting", lastAttemptMs: clock.now() };
    await wait(20_000);
  }
  expect(stuck).toBeUndefined();
  held.status = { ...status, nextAttemptMs: 0 };
  await wait(10_000);
  // A machine that slept for an hour is not stuck for it.
  sleptMs = 3_600_000;
  await wait(2_000);
  expect(stuck).toBeUndefined();
  await wait(stuckAfterMs);
  expect(stuck).toMatchObject({ code: "INTERNAL", details: { reason: "dialler_stuck" } });
  await watching;
});
