import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { jobFolder, readExit } from "../../../node-agent/jobs/job-record.ts";
import { defaultUnlinkedMs, openJobs } from "../../../node-agent/jobs/jobs.ts";
import type { FromSupervisor, JobStart } from "../../../node-agent/jobs/messages.ts";
import { connectSupervisor, findSupervisors } from "../../../node-agent/jobs/supervisor-link.ts";
import { startSupervisor, supervisorsFolder } from "../../../node-agent/jobs/supervisor.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { processMark } from "../../../shared/process/process-mark.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const minuteMs = 60_000;

test("jobs have ten minutes without a link, and a link that is back in time gives them all of it again", async () => {
  expect(defaultUnlinkedMs).toBe(10 * minuteMs);
  await using home = await makeTempFolder();
  const clock = new ManualClock();
  const jobsDir = home.join("jobs");
  const supervisor = await startSupervisor({
    jobsDir,
    name: "one",
    version: "1",
    unlinkedMs: defaultUnlinkedMs,
    clock,
    onFault: (error) => {
      throw error;
    },
  });
  const [found] = await findSupervisors(jobsDir);
  const link = found && (await connectSupervisor(found, { jobsDir, clock }));
  if (!link) throw new Error("the supervisor does not answer");
  const heard: FromSupervisor[] = [];
  link.hear((message) => void heard.push(message));
  const kinds = (): readonly string[] => heard.map(({ kind }) => kind);
  const job: JobStart = {
    id: "job",
    about: { workspace: "app", sessionId: "", agent: "", command: "sleep", cwd: "/app", dropped: [] },
    command: { argv: ["sleep", "600"] },
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    deadlineMs: 24 * 60 * minuteMs,
  };
  link.send({ kind: "link", isUp: true });
  link.send({ kind: "start", job });
  await expect.poll(kinds).toEqual(["started"]);
  await clock.advance(60 * minuteMs);
  expect(kinds()).toEqual(["started"]);

  // Away for nine minutes, twice.
  for (let times = 0; times < 2; times += 1) {
    const before = clock.sleepers;
    link.send({ kind: "link", isUp: false });
    await expect.poll(() => clock.sleepers).toBe(before + 1);
    await clock.advance(9 * minuteMs);
    link.send({ kind: "link", isUp: true });
    await expect.poll(() => clock.sleepers).toBe(before);
  }
  expect(kinds()).toEqual(["started"]);

  // Away for good: also the agent itself.
  const before = clock.sleepers;
  link.leave();
  await link.closed;
  await expect.poll(() => clock.sleepers).toBe(before + 1);
  await clock.advance(10 * minuteMs);
  let isClosed = false;
  void supervisor.closed.then(() => {
    isClosed = true;
  });
  // What ends the job waits by the same clock.
  await expect
    .poll(async () => {
      await clock.advance(50);
      return isClosed;
    })
    .toBe(true);
  const exit = await readExit(jobFolder(jobsDir, "job"));
  expect(exit).toMatchObject({ fault: { code: "CANCELLED", details: { reason: "unlinked" } }, unended: [] });
  expect(await home.entries()).not.toContain("jobs/supervisors/one.sock");
  supervisor.stop(new Fault("CANCELLED", "stopping twice is harmless"));
});

test("the agent of a copied home does not wait for the supervisor of the home that it was copied from", async () => {
  await using home = await makeTempFolder();
  const dir = home.join("jobs");
  const note = { mark: processMark(process.pid), protocol: 1, version: "1" };
  await mkdir(supervisorsFolder(dir), { recursive: true });
  await writeFile(join(supervisorsFolder(dir), "other.json"), JSON.stringify(note));
  expect(await findSupervisors(dir)).toHaveLength(1);
  const faults: unknown[] = [];
  const jobs = await openJobs({
    dir,
    version: "1",
    clock: systemClock,
    onFault: (error) => void faults.push(error),
  });
  await jobs[Symbol.asyncDispose]();
  expect(faults).toEqual([]);
});
