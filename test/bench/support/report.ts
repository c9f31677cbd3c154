import { mkdir, writeFile } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";

/** One run of one contender. */
export interface Run {
  readonly wallMs: number;
  /** Of both sides together, in seconds. */
  readonly cpuSeconds: number;
  /** The most resident memory of each process that was looked at, in bytes. */
  readonly peaks?: Readonly<Record<string, number>>;
}

/** Somebody who does the work, and what stands between two runs. */
export interface Contender {
  readonly name: string;
  /** Untimed: puts everything as it was before. */
  readonly prepare: () => Promise<void>;
  readonly run: () => Promise<Run>;
  /** Untimed: fails unless the work was done right. */
  readonly check?: () => Promise<void>;
}

/** The runs of one contender put together. */
export interface Row {
  readonly name: string;
  readonly medianMs: number;
  readonly allMs: readonly number[];
  readonly cpuSeconds: number;
  readonly peaks: Readonly<Record<string, number>>;
}

/** The value in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? high) + high) / 2;
}

/** Lets the contenders run in turn (A B A B …), after one round that does not count where `warmUp` says so. */
export async function runInTurn(
  contenders: readonly Contender[],
  options: { readonly rounds: number; readonly warmUp?: boolean },
): Promise<readonly Row[]> {
  const runs = new Map<string, Run[]>(contenders.map(({ name }) => [name, []]));
  const first = options.warmUp === true ? -1 : 0;
  for (let round = first; round < options.rounds; round += 1) {
    for (const { name, prepare, run, check } of contenders) {
      await prepare();
      const result = await run();
      await check?.();
      if (round >= 0) runs.get(name)?.push(result);
    }
  }
  return Array.from(runs, ([name, all]) => toRow(name, all));
}

function toRow(name: string, runs: readonly Run[]): Row {
  const peaks: Record<string, number> = {};
  for (const run of runs) {
    for (const [who, bytes] of Object.entries(run.peaks ?? {})) peaks[who] = Math.max(peaks[who] ?? 0, bytes);
  }
  return {
    name,
    medianMs: median(runs.map(({ wallMs }) => wallMs)),
    allMs: runs.map(({ wallMs }) => Math.round(wallMs)),
    cpuSeconds: median(runs.map((run) => run.cpuSeconds)),
    peaks,
  };
}

/** A table with ratios: how many times faster each of `ours` is than the others. */
export interface Report {
  readonly title: string;
  readonly rows: readonly Row[];
  /** Names of our own rows. */
  readonly ours: readonly string[];
  /** Bytes moved, for the rate; left out where files are counted. */
  readonly bytes?: number;
}

/** The others' time by ours: above 1 we are faster. */
export function ratio(report: Report, ours: string, peer: string): number {
  const find = (name: string): number => report.rows.find((row) => row.name === name)?.medianMs ?? Number.NaN;
  return find(peer) / find(ours);
}

/** Prints the table to standard output. */
export function printReport(report: Report): void {
  const lines = report.rows.map((row) => [
    row.name,
    row.medianMs.toFixed(0),
    report.bytes === undefined ? "" : (report.bytes / 1e6 / (row.medianMs / 1e3)).toFixed(0),
    row.cpuSeconds.toFixed(2),
    Object.entries(row.peaks)
      .map(([who, bytes]) => `${who} ${(bytes / 1_048_576).toFixed(0)}`)
      .join(", "),
    report.ours.map((ours) => ratio(report, ours, row.name).toFixed(2)).join(" · "),
  ]);
  const load = loadavg()
    .map((value) => value.toFixed(1))
    .join(" ");
  console.log(`\n${report.title} (${cpus().length} cores, load ${load}, Node ${process.versions.node})`);
  const head = ["who", "ms (median)", "MB/s", "CPU s", "peak MiB", `× of ${report.ours.join(" · ")}`];
  const widths = head.map((text, at) => Math.max(text.length, ...lines.map((line) => line[at]?.length ?? 0)));
  for (const line of [head, ...lines]) {
    console.log(line.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  "));
  }
}

/** Writes the reports as JSON beside the benches, where git does not look. */
export async function saveReports(name: string, reports: readonly Report[]): Promise<void> {
  const folder = fileURLToPath(new URL("../results/", import.meta.url));
  await mkdir(folder, { recursive: true });
  const facts = {
    at: new Date().toISOString(),
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? "",
    node: process.version,
  };
  await writeFile(
    `${folder}${name}.json`,
    `${JSON.stringify({ ...facts, load: loadavg(), reports }, null, 2)}\n`,
  );
}
