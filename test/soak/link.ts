import { readdir, readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { setup as buildPrograms } from "../support/build-programs.ts";
import { startGatewayBehindProxy } from "../support/gateway-behind-proxy.ts";
import { startNode } from "../support/start-node.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";
import { callOn, type CallTally } from "./callers.ts";
import { pickTrouble, type Troubled } from "./trouble.ts";

// Calls over a link that is cut, stalled, frozen and killed for a long time: `npm run soak:link -- --minutes 60`. A line a
// minute, a summary at the end, exit 1 when an outcome was lost or wrong, or something has grown.

const { values } = parseArgs({ options: { minutes: { type: "string", default: "60" } } });
const minutes = Number(values.minutes);
if (!(minutes > 0 && minutes <= 24 * 60)) throw new Error("--minutes is a number from 1 to 1440");

const callerCount = 4;
/** A busy machine starts a program slowly: that is not what is looked for here. */
const patienceMs = 300_000;
const mib = 1024 * 1024;

interface Use {
  readonly memoryBytes: number;
  readonly handles: number;
}

/** What a process holds: resident memory, and open files and sockets. */
async function useOf(pid: number): Promise<Use> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const resident = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? "0";
  return { memoryBytes: Number(resident) * 1024, handles: (await readdir(`/proc/${pid}/fd`)).length };
}

/** Files that the two programs keep, the made folders left out. */
async function fileCount(homes: readonly string[]): Promise<number> {
  const all = await Promise.all(
    homes.map(async (home) => (await readdir(home, { recursive: true, withFileTypes: true })).length),
  );
  return all.reduce((sum, count) => sum + count, 0);
}

function show(all: ReadonlyMap<string, number>): string {
  return Array.from(all, ([name, count]) => `${count} ${name}`).join(", ");
}

interface Measured {
  readonly gateway: Use;
  readonly node: Use;
  readonly files: number;
}

async function measure({ gateway, node }: Troubled): Promise<Measured> {
  return {
    gateway: await useOf(gateway.pid),
    node: await useOf(node.pid),
    files: await fileCount([gateway.home, node.home]),
  };
}

function toText({ gateway, node, files }: Measured): string {
  const one = ({ memoryBytes, handles }: Use): string =>
    `${(memoryBytes / mib).toFixed(0)} MiB, ${handles} handles`;
  return `gateway ${one(gateway)}; node ${one(node)}; ${files} files`;
}

/** Trouble after trouble until the time is over; both programs run and are linked when it resolves. */
async function makeTrouble(troubled: Troubled, endsAt: number): Promise<Map<string, number>> {
  const made = new Map<string, number>();
  while (systemClock.now() < endsAt) {
    await systemClock.sleep(1000 + Math.random() * 4000);
    const { name, make } = pickTrouble();
    await make(troubled);
    made.set(name, (made.get(name) ?? 0) + 1);
  }
  troubled.proxy.mend();
  return made;
}

async function untilOnline({ gateway }: Troubled): Promise<void> {
  const giveUpAt = systemClock.now() + patienceMs;
  for (;;) {
    const { stdout } = await gateway.cli(["nodes", "ls", "--state", "online"]);
    if (stdout.includes("devbox")) return;
    if (systemClock.now() > giveUpAt)
      throw new Error("the node is not back five minutes after the last trouble");
    await systemClock.sleep(500);
  }
}

function growth(before: Measured, after: Measured): string[] {
  const grown: string[] = [];
  for (const who of ["gateway", "node"] as const) {
    const [first, last] = [before[who], after[who]];
    if (last.memoryBytes > first.memoryBytes * 1.5 + 64 * mib) grown.push(`the memory of the ${who}`);
    if (last.handles > first.handles + 16) grown.push(`the handles of the ${who}`);
  }
  // Ledgers and records grow inside their files; new files are strays.
  if (after.files > before.files + 16) grown.push("the number of files");
  return grown;
}

interface Ended {
  readonly before: Measured;
  readonly after: Measured;
  readonly tally: CallTally;
  readonly made: ReadonlyMap<string, number>;
}

/** The last lines; says whether all was well. */
function conclude({ before, after, tally, made }: Ended): boolean {
  const wrong = [...tally.wrong, ...growth(before, after).map((what) => `${what} has grown`)];
  console.log(`trouble: ${show(made)}`);
  console.log(`ended: ${tally.count} calls (${show(tally.byOutcome)}); ${toText(after)}`);
  for (const line of wrong.slice(0, 50)) console.log(`wrong: ${line}`);
  console.log(
    wrong.length === 0 ? "nothing was lost and nothing has grown" : `${wrong.length} things were wrong`,
  );
  return wrong.length === 0;
}

/** A line a minute until the time is over. */
async function tick(troubled: Troubled, tally: CallTally, endsAt: number): Promise<void> {
  for (let minute = 1; systemClock.now() < endsAt; minute += 1) {
    await systemClock.sleep(Math.min(60_000, Math.max(0, endsAt - systemClock.now())));
    const now = await measure(troubled).then(toText, () => "a program is being started");
    console.log(`minute ${minute}: ${tally.count} calls (${show(tally.byOutcome)}); ${now}`);
  }
}

async function soak(): Promise<boolean> {
  await using workspace = await makeTempWorkspace({ "a.txt": "text" });
  await using pair = await startGatewayBehindProxy({ readyWithinMs: patienceMs });
  const { gateway, proxy } = pair;
  await using node = await startNode({
    gateway,
    workspaces: { app: `${workspace.path}:rw` },
    profile: "full",
  });
  const troubled: Troubled = { gateway, node, proxy };
  const before = await measure(troubled);
  console.log(`begun: ${toText(before)}`);
  const tally: CallTally = { byOutcome: new Map(), wrong: [], count: 0 };
  const stop = new AbortController();
  const options = { gatewayHome: gateway.home, folder: workspace.path, signal: stop.signal };
  const callers = Array.from({ length: callerCount }, (_, at) => callOn(options, `caller-${at}`, tally));
  const endsAt = systemClock.now() + minutes * 60_000;
  const ticking = tick(troubled, tally, endsAt);
  const made = await makeTrouble(troubled, endsAt);
  stop.abort();
  await Promise.all([...callers, ticking]);
  await untilOnline(troubled);
  // What was under way is over, and what ends later has had its time.
  await systemClock.sleep(10_000);
  return conclude({ before, after: await measure(troubled), tally, made });
}

await buildPrograms();
process.exitCode = (await soak()) ? 0 : 1;
