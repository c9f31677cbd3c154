import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { realpath } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { isFault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import { startOwnProgram } from "../../shared/process/own-program.ts";
import { createPause } from "../../shared/root/linux/pause.ts";
import { readOwnMarker } from "../../shared/root/linux/process-marker.ts";
import { openRoot } from "../../shared/root/open-root.ts";
import type { Containment, RootHandle } from "../../shared/root/root-handle.ts";
import { createStagedName, isStagedName } from "../../shared/root/staged-name.ts";
import { attackCases } from "./attack-cases.ts";

/** What is attacked, and for how long: until both numbers are reached, or the signal aborts. */
export interface AttackOptions {
  /** An exported folder. The attack makes one of its own in it, which nothing lists, and removes it. */
  readonly dir: string;
  readonly followSymlinks: boolean;
  /** How the folder is kept inside; by default the surest that this platform has. */
  readonly containment?: Containment | undefined;
  readonly swaps: number;
  readonly tries: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** What came of one kind of operation. */
export interface AttackedCase {
  readonly name: string;
  readonly tries: number;
  /** Tries that ended in a fault: allowed, as the parent was a link at that moment. */
  readonly refused: number;
  /** Tries that saw or changed something outside. */
  readonly escapes: number;
}

/** What came of an attack. */
export interface AttackOutcome {
  readonly containment: Containment;
  readonly swaps: number;
  readonly cases: readonly AttackedCase[];
}

/**
 * Reads, lists, writes, moves and removes below a folder while another process flips that folder between itself and a link
 * to one that lies outside of the root. What is counted is what came of it; nothing is left of the attack in the end.
 */
export async function attackContainment(options: AttackOptions): Promise<AttackOutcome> {
  const own = path.join(await realpath(options.dir), createStagedName(readOwnMarker()));
  try {
    mkdirSync(own, { mode: 0o700 });
  } catch (error) {
    throw faultFromErrno(error, options.dir);
  }
  try {
    return await attackIn(own, options);
  } finally {
    await clear(own);
  }
}

async function clear(own: string): Promise<void> {
  unlinkStaged(own);
  {
    await using root = await openRoot(own, { allowHardLinks: true });
    for (const name of readdirSync(own)) await root.remove(parseWorkspacePath(name), { recursive: true });
  }
  rmdirSync(own);
}

/** A root that is held by names leaves what it staged in a folder that was swapped away; nobody writes it any more. */
function unlinkStaged(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory()) unlinkStaged(at);
    else if (isStagedName(entry.name)) unlinkSync(at);
  }
}

const outsideWord = "OUTSIDE";
const outsideFiles = ["canary", "f0", "keep", "secret", "victim", "sub/x"];

async function attackIn(own: string, options: AttackOptions): Promise<AttackOutcome> {
  const [inside, outside] = [path.join(own, "inside"), path.join(own, "outside")];
  for (const dir of ["inside", "inside/d", "inside/d/sub", "outside", "outside/sub"])
    mkdirSync(path.join(own, dir));
  for (const name of ["d/f0", "d/secret", "d/sub/x"]) writeFileSync(path.join(inside, name), "inside");
  for (const name of outsideFiles) writeFileSync(path.join(outside, name), outsideWord);
  symlinkSync("../outside", path.join(inside, "d.try"));
  await using root = await openRoot(inside, {
    followSymlinks: options.followSymlinks,
    containment: options.containment,
  });
  const { swaps, cases } = await race(root, inside, options);
  const changed = { name: "outside as it was", tries: outsideFiles.length, refused: 0 };
  return {
    containment: root.containment,
    swaps,
    cases: [...cases, { ...changed, escapes: countChanged(outside) }],
  };
}

function countChanged(outside: string): number {
  const names = ["", "sub"].flatMap((dir) =>
    readdirSync(path.join(outside, dir)).map((name) => path.join(dir, name)),
  );
  const strangers = names.filter((name) => name !== "sub" && !outsideFiles.includes(name));
  const lost = outsideFiles.filter((name) => !names.includes(name));
  const altered = outsideFiles.filter(
    (name) => names.includes(name) && readFileSync(path.join(outside, name), "utf8") !== outsideWord,
  );
  return strangers.length + lost.length + altered.length;
}

async function race(
  root: RootHandle,
  inside: string,
  { swaps, tries, clock, signal }: AttackOptions,
): Promise<Omit<AttackOutcome, "containment">> {
  const here = import.meta.url;
  // Built or not, the entry lies beside this file and has its ending.
  const entry = fileURLToPath(new URL(`swap-racer${path.extname(fileURLToPath(here))}`, here));
  const cases = new Map<string, { tries: number; refused: number; escapes: number }>();
  let [swapped, tried] = [0, 0];
  let counting: Promise<void> | undefined;
  {
    await using racer = startOwnProgram({ entry, args: [inside, "../outside"], env: {}, clock });
    counting = (async () => {
      for await (const line of racer.lines) swapped = Number(line);
    })();
    const pause = createPause(undefined);
    for (let round = 0; !signal.aborted && (swapped < swaps || tried < tries); round += 1) {
      for (const [name, attempt] of attackCases(root, round)) {
        const counts = cases.get(name) ?? { tries: 0, refused: 0, escapes: 0 };
        cases.set(name, counts);
        tried += 1;
        counts.tries += 1;
        const ended = await outcomeOf(attempt);
        if (ended === "refused") counts.refused += 1;
        else if (ended === "escaped") counts.escapes += 1;
      }
      if (pause.isDue()) await pause.take();
    }
  }
  await counting;
  return { swaps: swapped, cases: [...cases].map(([name, counts]) => ({ name, ...counts })) };
}

async function outcomeOf(attempt: () => Promise<Buffer | void>): Promise<"done" | "refused" | "escaped"> {
  try {
    const seen = await attempt();
    return seen?.includes(outsideWord) === true ? "escaped" : "done";
  } catch (error) {
    if (isFault(error)) return "refused";
    throw error;
  }
}
