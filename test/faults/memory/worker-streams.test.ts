import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startWorkerWatch } from "../../support/run-worker.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 120_000;

/** Whether the process has an inotify descriptor: a watcher that was not closed. */
function isWatching(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) =>
      readlinkSync(`/proc/${pid}/fd/${fd}`).includes("inotify"),
    );
  } catch {
    return false;
  }
}

/** Resident memory in MiB. */
function residentMib(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? 0) / 1024;
}

/** Seconds of processor time that the process has used. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

proves(
  "memory.worker-input-closed",
  "closing the input ends a watch: at once while it starts, and after the events that are due later on",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\n" });
    for (const input of ["", '{"operation":"watch"}\n']) {
      await using early = startWorkerWatch(workspace.path);
      early.send(input);
      early.end();
      // Two seconds are counted from its start, which a busy machine draws out.
      await expect.poll(() => cpuOrGone(early.pid), { timeout: 30_000 }).toBe("gone");
      expect(early.lines()).toEqual([]);
      expect(await early.ended).toBe(0);
    }
    await using watch = startWorkerWatch(workspace.path);
    watch.send('{"operation":"watch"}\n');
    await expect.poll(() => watch.lines(), { timeout: 20_000 }).toHaveLength(1);
    expect(isWatching(watch.pid)).toBe(true);
    await workspace.write({ "memory/due.md": "due\n" });
    await expect.poll(() => watch.lines(), { timeout: 20_000 }).toHaveLength(2);
    watch.end();
    expect(await watch.ended).toBe(0);
    expect(watch.lines()).toMatchObject([
      { event: "available" },
      { event: "changed", path: "memory/due.md" },
    ]);
  },
);

function cpuOrGone(pid: number): string {
  try {
    cpuSeconds(pid);
    return "runs";
  } catch {
    return "gone";
  }
}

proves(
  "memory.worker-blocked-output",
  "a slow reader gets every line, and one that has left ends the worker",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "one\n" });
    const count = 3000;
    await using slow = startWorkerWatch(workspace.path, { leaveOutput: true });
    slow.send('{"operation":"watch"}\n');
    await expect.poll(() => isWatching(slow.pid), { timeout: 20_000 }).toBe(true);
    const reader = slow.child.stdout.setEncoding("utf8")[Symbol.asyncIterator]();
    let text = String((await reader.next()).value);
    expect(text).toContain("available");
    const before = residentMib(slow.pid);
    await workspace.write(
      Object.fromEntries(
        Array.from({ length: count }, (_, index) => [
          `memory/${"long-name-".repeat(15)}${index}.md`,
          `${index}\n`,
        ]),
      ),
    );
    let most = 0;
    while (text.split("\n").length - 1 < count + 1) {
      most = Math.max(most, residentMib(slow.pid));
      const next = await reader.next();
      if (next.done === true) break;
      text += String(next.value);
    }
    const paths = text
      .split("\n")
      .filter((line) => line.includes('"changed"'))
      .map((line) => (JSON.parse(line) as { path: string }).path);
    expect(new Set(paths).size).toBe(count);
    expect(most - before).toBeLessThan(64);
    slow.end();
    for await (const rest of { [Symbol.asyncIterator]: () => reader }) text += String(rest);
    expect(
      text
        .trimEnd()
        .split("\n")
        .every((line) => typeof JSON.parse(line) === "object"),
    ).toBe(true);
    expect(await slow.ended).toBe(0);

    await using left = startWorkerWatch(workspace.path, { leaveOutput: true });
    left.send('{"operation":"watch"}\n');
    await expect.poll(() => isWatching(left.pid), { timeout: 20_000 }).toBe(true);
    left.child.stdout.resume();
    const usedBefore = cpuSeconds(left.pid);
    left.child.stdout.destroy();
    // Nothing is written to the workspace: the worker finds by itself that nobody listens.
    let used = 0;
    const usedOrGone = (): string => {
      try {
        used = cpuSeconds(left.pid) - usedBefore;
        return "runs";
      } catch {
        return "gone";
      }
    };
    await expect.poll(usedOrGone, { timeout: 20_000, interval: 20 }).toBe("gone");
    expect(await left.ended).toBe(0);
    expect(used).toBeLessThan(1);
  },
);
