import { mkdir, rm } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { startPeers, type Peers } from "../support/peers.ts";
import { cpuSeconds, runMeasured } from "../support/processes.ts";
import {
  printReport,
  ratio,
  runInTurn,
  saveReports,
  type Contender,
  type Report,
} from "../support/report.ts";
import { startPair } from "./pair.ts";
import { digestFile, digestTree, writeRandomFile, writeTree } from "./trees.ts";

/** `FAIRLEAD_BENCH=quick`: a look while working, whose numbers say little. */
const isQuick = process.env["FAIRLEAD_BENCH"] === "quick";
const sizeBytes = (isQuick ? 256 : 1024) * 1024 * 1024;
const fileCount = isQuick ? 2_000 : 10_000;
const timeoutMs = 300_000;

interface Place {
  /** On the side of the node and of the servers. */
  readonly there: string;
  /** On the side of the command. */
  readonly here: string;
  readonly name: string;
}

/** Everything that was written is on the disk before the next one begins, so that nobody pays for another's bytes. */
async function clear(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await runMeasured(["sync"], { timeoutMs });
}

function peerContenders(peers: Peers, place: Place, way: "pull" | "push"): Contender[] {
  const [from, to] = way === "pull" ? [place.there, place.here] : [place.here, place.there];
  const [source, target] = [`${from}/source/${place.name}`, `${to}/${way}/${place.name}`];
  const isTree = place.name === "tree";
  const made = (name: string, pid: number, argv: readonly string[]): Contender => ({
    name: `${name} ${way}`,
    prepare: () => clear(target),
    run: async () => {
      const before = await cpuSeconds(pid);
      const use = await runMeasured(argv, { timeoutMs });
      return { wallMs: use.wallMs, cpuSeconds: use.cpuSeconds + (await cpuSeconds(pid)) - before };
    },
  });
  const { ssh, daemon } = peers;
  const slash = isTree ? "/" : "";
  return [
    ...(ssh
      ? [made("rsync over ssh", ssh.server.pid, ssh.rsync(`${source}${slash}`, `${target}${slash}`, way))]
      : []),
    ...(daemon
      ? [made("rsync daemon", daemon.server.pid, daemon.rsync(`${source}${slash}`, `${target}${slash}`, way))]
      : []),
    ...(ssh && !isTree ? [made("scp", ssh.server.pid, ssh.scp(source, target, way))] : []),
  ];
}

async function compare(place: Place, peers: Peers, rounds: number): Promise<Report> {
  await using pair = await startPair(place.there);
  const isTree = place.name === "tree";
  const digest = isTree ? digestTree : digestFile;
  const expected = await digest(`${place.there}/source/${place.name}`);
  const own = (name: string, target: string, args: readonly string[]): Contender => ({
    name,
    prepare: () => clear(target),
    run: () => pair.files(args),
    check: async () => expect(await digest(target)).toBe(expected),
  });
  const got = `${place.here}/pull/${place.name}`;
  const stored = `${place.there}/push/${place.name}`;
  const contenders = [
    own("ours get", got, ["get", `devbox:/app/source/${place.name}`, got]),
    ...peerContenders(peers, place, "pull"),
    own("ours put", stored, [
      "put",
      `${place.here}/source/${place.name}`,
      `devbox:/app/push/${place.name}`,
      "--if-match",
      "any",
    ]),
    ...peerContenders(peers, place, "push"),
  ];
  const rows = await runInTurn(contenders, { rounds });
  const title = isTree ? `${fileCount} files of about 4 KiB` : `one file of ${sizeBytes / 1_048_576} MiB`;
  return { title, rows, ours: ["ours get", "ours put"], ...(isTree ? {} : { bytes: sizeBytes }) };
}

async function prepare(folder: string, name: string): Promise<Place> {
  const place = { there: `${folder}/there`, here: `${folder}/here`, name };
  for (const side of [place.there, place.here]) {
    for (const inner of ["source", "pull", "push"]) await mkdir(`${side}/${inner}`, { recursive: true });
  }
  const source = `${place.there}/source/${name}`;
  if (name === "tree") await writeTree(source, fileCount);
  else await writeRandomFile(source, sizeBytes);
  await runMeasured(["cp", "-a", source, `${place.here}/source/${name}`], { timeoutMs });
  return place;
}

test("files travel at the rate of rsync over ssh", async () => {
  await using folder = await makeTempFolder();
  await using peers = await startPeers(folder.path);
  for (const missing of peers.missing) console.log(`left out: ${missing} is not installed`);
  const reports: Report[] = [];
  for (const [name, rounds] of [
    ["big", isQuick ? 1 : 3],
    ["tree", isQuick ? 1 : 5],
  ] as const) {
    const report = await compare(await prepare(folder.path, name), peers, rounds);
    printReport(report);
    reports.push(report);
    await rm(folder.join("there/source", name), { recursive: true });
    await rm(folder.join("here/source", name), { recursive: true });
  }
  await saveReports("files", reports);
  if (!peers.ssh) return;
  for (const report of reports) {
    expect(ratio(report, "ours get", "rsync over ssh pull")).toBeGreaterThan(0.2);
    expect(ratio(report, "ours put", "rsync over ssh push")).toBeGreaterThan(0.2);
  }
});
