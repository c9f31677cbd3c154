import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Job, JobOutput } from "../../../node-agent/jobs/job.ts";
import { openJobs, type Jobs } from "../../../node-agent/jobs/jobs.ts";
import type { JobStart } from "../../../node-agent/jobs/messages.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

// Jobs without a gateway: the agent's side of them, and real supervisors.
const mebi = 1024 * 1024;
const soon = { timeout: 20_000, interval: 20 };
const forever = new AbortController().signal;

async function makeJobsFolder(): Promise<string> {
  const home = await makeTempFolder();
  onTestFinished(() => home[Symbol.asyncDispose]());
  return home.join("jobs");
}

async function open(dir: string, version = "1"): Promise<Jobs> {
  return await openJobs({ dir, version, clock: systemClock });
}

let count = 0;

function line(shell: string, more: Partial<JobStart> = {}): JobStart {
  count += 1;
  return {
    id: `job-${count}`,
    about: { workspace: "app", sessionId: "", agent: "operator", command: shell, cwd: "/app", dropped: [] },
    command: { shell },
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    deadlineMs: 60_000,
    ...more,
  };
}

async function readAll(job: Job, from = { stdout: 0, stderr: 0 }): Promise<readonly JobOutput[]> {
  return await Array.fromAsync(job.follow(from, forever));
}

/** Who supervises in a folder of jobs. */
function supervisors(dir: string): readonly number[] {
  return findProcesses(dir);
}

test("a supervisor without jobs ends with its agent, and leaves only records", async () => {
  const dir = await makeJobsFolder();
  const jobs = await open(dir);
  expect(supervisors(dir)).toEqual([]);
  const job = await jobs.start(line("echo out; echo err >&2; exit 3"));
  expect(await job.ended).toMatchObject({ exitCode: 3, stdoutBytes: 4, stderrBytes: 4 });
  expect(supervisors(dir)).toHaveLength(1);
  await jobs[Symbol.asyncDispose]();
  expect(await readdir(join(dir, "supervisors"))).toEqual(["supervisor.log"]);
  await expect.poll(() => supervisors(dir), soon).toEqual([]);
});

test("a job whose supervisor was killed is ended with all it started, and its end is unknown", async () => {
  const dir = await makeJobsFolder();
  await using jobs = await open(dir);
  const mark = `sleep 6${Date.now() % 100_000}`;
  const job = await jobs.start(line(`echo begun; setsid ${mark} & ${mark}`));
  await expect.poll(() => findProcesses(mark.replace(" ", "\0")).length, soon).toBe(2);
  // What the supervisor has not taken yet dies with it.
  for await (const _ of job.follow({ stdout: 0, stderr: 0 }, forever)) break;
  const [supervisor = 0] = supervisors(dir);
  process.kill(supervisor, "SIGKILL");
  expect(await job.ended).toMatchObject({
    fault: { code: "OUTCOME_UNKNOWN", details: { callId: job.id, reason: "supervisor_ended" } },
    stdoutBytes: 6,
  });
  expect(findProcesses(mark.replace(" ", "\0"))).toEqual([]);
  // The next job has a supervisor of its own.
  const next = await jobs.start(line("echo next"));
  expect((await next.ended).exitCode).toBe(0);
  expect((await jobs.find(job.id))?.exit?.fault?.code).toBe("OUTCOME_UNKNOWN");
});

test("jobs of a supervisor that was killed while no agent was there are ended by the next one", async () => {
  const dir = await makeJobsFolder();
  const first = await open(dir);
  const mark = `sleep 7${Date.now() % 100_000}`;
  const job = await first.start(line(mark));
  const [supervisor = 0] = supervisors(dir);
  await first[Symbol.asyncDispose]();
  process.kill(supervisor, "SIGKILL");
  await expect.poll(() => supervisors(dir), soon).toEqual([]);
  expect(findProcesses(mark.replace(" ", "\0"))).not.toEqual([]);
  await using second = await open(dir);
  await expect.poll(() => findProcesses(mark.replace(" ", "\0")), soon).toEqual([]);
  await expect.poll(async () => (await second.find(job.id))?.exit?.fault?.code, soon).toBe("OUTCOME_UNKNOWN");
});

test("the deadline of a job holds while no agent is there", async () => {
  const dir = await makeJobsFolder();
  const first = await open(dir);
  const job = await first.start(line("echo begun; sleep 600", { deadlineMs: 1_000 }));
  const { pid } = job;
  await first[Symbol.asyncDispose]();
  await expect.poll(() => supervisors(dir), soon).toEqual([]);
  expect(() => process.kill(pid, 0)).toThrow();
  await using second = await open(dir);
  expect((await second.find(job.id))?.exit).toMatchObject({
    fault: { code: "DEADLINE_EXCEEDED", details: { callId: job.id } },
    stdoutBytes: 6,
  });
});

test("an agent of another version finishes the jobs of the old supervisor and begins none with it", async () => {
  const dir = await makeJobsFolder();
  const old = await open(dir, "1");
  const gate = join(dir, "go");
  const job = await old.start(line(`echo one; while [ ! -e ${gate} ]; do sleep 0.02; done; echo two`));
  await old[Symbol.asyncDispose]();
  await using jobs = await open(dir, "2");
  expect(jobs.running().map(({ id, pid }) => ({ id, pid }))).toEqual([{ id: job.id, pid: job.pid }]);
  const next = await jobs.start(line(`touch ${gate}`));
  await next.ended;
  const again = await jobs.find(job.id);
  const output = again ? await readAll(again, { stdout: 4, stderr: 0 }) : [];
  expect(Buffer.concat(output.map(({ data }) => data)).toString()).toBe("two\n");
  await expect.poll(() => supervisors(dir), soon).toHaveLength(1);
});

test("an end with a reason takes everything that the job started, and the reason is what is recorded", async () => {
  const dir = await makeJobsFolder();
  await using jobs = await open(dir);
  const mark = `sleep 8${Date.now() % 100_000}`;
  const job = await jobs.start(line(`trap '' TERM; setsid ${mark} & ${mark}; ${mark}`));
  await expect.poll(() => findProcesses(mark.replace(" ", "\0")).length, soon).toBe(2);
  const exit = await job.end(new Fault("CANCELLED", "enough", { details: { reason: "draining" } }));
  expect(exit).toMatchObject({ fault: { code: "CANCELLED", details: { reason: "draining" } }, unended: [] });
  expect(findProcesses(mark.replace(" ", "\0"))).toEqual([]);
  expect((await jobs.find(job.id))?.exit).toEqual(exit);
});

test(
  "of output that nobody reads beginning and end are kept, in bounded files",
  { timeout: 60_000 },
  async () => {
    const dir = await makeJobsFolder();
    await using jobs = await open(dir);
    const job = await jobs.start(line("yes 0123456789abcde | head -c 100000000"));
    expect(await job.ended).toMatchObject({ exitCode: 0, stdoutBytes: 100_000_000 });
    const folder = (await readdir(dir)).find((name) => name.length === 32) ?? "";
    const sizes = await Promise.all(
      (await readdir(join(dir, folder)))
        .filter((name) => name.startsWith("stdout."))
        .map(async (name) => (await stat(join(dir, folder, name))).size),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(64 * mebi);
    const { stdout } = await job.kept();
    expect(stdout).toMatchObject({ totalBytes: 100_000_000, truncated: true });
    expect(stdout.head.byteLength).toBe(64 * 1024);
    expect(stdout.tail.byteLength).toBe(192 * 1024);
    // Whoever comes late is told where it goes on, and nothing comes twice.
    let at = 0;
    let gaps = 0;
    for (const { offset, data } of await readAll(job)) {
      expect(offset).toBeGreaterThanOrEqual(at);
      if (offset > at) gaps += 1;
      expect(Buffer.from(data.subarray(0, 16 - (offset % 16))).toString()).toBe(
        "0123456789abcde\n".slice(offset % 16),
      );
      at = offset + data.byteLength;
    }
    expect({ at, gaps }).toEqual({ at: 100_000_000, gaps: 1 });
  },
);

test("a reader that follows gets every byte, however much it is", { timeout: 60_000 }, async () => {
  const dir = await makeJobsFolder();
  await using jobs = await open(dir);
  const job = await jobs.start(line("yes 0123456789abcde | head -c 150000000"));
  const hash = createHash("sha256");
  let at = 0;
  for await (const { offset, data } of job.follow({ stdout: 0, stderr: 0 }, forever)) {
    if (offset !== at) throw new Error(`a gap at ${at}: it goes on at ${offset}`);
    // A reader that is slower than the writer at first.
    if (at < 4 * mebi) await systemClock.sleep(5);
    hash.update(data);
    at += data.byteLength;
  }
  const whole = Buffer.alloc(150_000_000, "0123456789abcde\n");
  expect(at).toBe(whole.byteLength);
  expect(hash.digest("hex")).toBe(createHash("sha256").update(whole).digest("hex"));
});

test("a command that cannot be started leaves no record", async () => {
  const dir = await makeJobsFolder();
  await using jobs = await open(dir);
  const missing = line("", { command: { argv: ["/no/such/program"] } });
  await expect(jobs.start(missing)).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(await jobs.find(missing.id)).toBeUndefined();
  await expect
    .poll(async () => (await readdir(dir)).filter((name) => name !== "supervisors"), soon)
    .toEqual([]);
  expect(await readFile(join(dir, "supervisors", "supervisor.log"), "utf8")).toBe("");
});
