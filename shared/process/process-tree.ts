import { readFileSync, readdirSync } from "node:fs";
import { platform } from "node:process";
import type { Clock } from "../lifetime/clock.ts";

/** What a tree of processes is known by. */
export interface TreeRoot {
  /** The first process: leader of a session and a group of its own; 0 when only the marker is known for sure. */
  readonly pid: number;
  /** Stands in the environment of all its descendants, also of those that left session and group: `NAME=value`. */
  readonly marker: string;
}

/** How far an end reaches. */
export type TreeScope = "session" | "all";

interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** When it began, as the kernel counts. */
  readonly began: string;
  readonly ended: boolean;
}

const pollMs = 10;

/** How `endTree` goes about it. */
export interface EndTreeOptions {
  /** `session`: what is still in the root's session or group. `all`: also what has left them. */
  readonly scope: TreeScope;
  /** Between SIGTERM and SIGKILL, in milliseconds; 0: SIGKILL at once. */
  readonly graceMs: number;
  /** How long the end of what was killed is waited for, in milliseconds. */
  readonly proofMs: number;
  readonly clock: Clock;
}

/** Ends a tree of processes: SIGTERM, a grace, SIGKILL, and a look whether they are gone. Gives those that are not. */
export async function endTree(root: TreeRoot, options: EndTreeOptions): Promise<readonly number[]> {
  const { clock, scope } = options;
  const known: KnownProcesses = new Map();
  const look = (): readonly number[] => lookAtTree(root, scope, known);
  signalAll(root, look(), "SIGTERM");
  const graceUntil = clock.now() + options.graceMs;
  while (clock.now() < graceUntil) {
    if (look().length === 0) return [];
    await clock.sleep(Math.min(pollMs, options.graceMs));
  }
  const proofUntil = clock.now() + options.proofMs;
  for (;;) {
    const left = look();
    if (left.length === 0) return [];
    if (clock.now() >= proofUntil) return left;
    // Repeated, as a process may have been forked between the look and the signal.
    signalAll(root, left, "SIGKILL");
    await clock.sleep(pollMs);
  }
}

/** Processes by id, with when they began. */
type KnownProcesses = Map<number, string>;

/**
 * One look; what it finds stays known. A process that has left the session and dropped the marker is found through its
 * parent as long as that lives, and the first signal may be that one's end.
 */
function lookAtTree(root: TreeRoot, scope: TreeScope, known: KnownProcesses): readonly number[] {
  const hasRoot = root.pid > 0;
  if (platform !== "linux") return hasRoot && isGroupAlive(root.pid) ? [root.pid] : [];
  const rows = readProcesses();
  const inTree = new Set<number>(hasRoot ? [root.pid] : []);
  for (const row of rows) {
    if (known.get(row.pid) === row.began) inTree.add(row.pid);
    else if (hasRoot && (row.session === root.pid || row.group === root.pid)) inTree.add(row.pid);
    else if (scope === "all" && hasMarker(row.pid, root.marker)) inTree.add(row.pid);
  }
  if (scope === "all") addDescendants(rows, inTree);
  const living = rows.filter((row) => inTree.has(row.pid) && !row.ended);
  for (const { pid, began } of living) known.set(pid, began);
  return living.map(({ pid }) => pid);
}

function addDescendants(rows: readonly ProcessRow[], inTree: Set<number>): void {
  for (let grew = true; grew;) {
    grew = false;
    for (const row of rows) {
      if (inTree.has(row.pid) || !inTree.has(row.parent)) continue;
      inTree.add(row.pid);
      grew = true;
    }
  }
}

function signalAll(root: TreeRoot, pids: readonly number[], signal: "SIGTERM" | "SIGKILL"): void {
  if (root.pid > 0) sendSignal(-root.pid, signal);
  for (const pid of pids) sendSignal(pid, signal);
}

function sendSignal(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(platform === "win32" ? Math.abs(pid) : pid, signal);
  } catch {
    // Gone already, or not ours to signal: the look afterwards tells.
  }
}

function isGroupAlive(pid: number): boolean {
  try {
    process.kill(platform === "win32" ? pid : -pid, 0);
    return true;
  } catch {
    return false;
  }
}

function readProcesses(): readonly ProcessRow[] {
  const rows: ProcessRow[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^[0-9]+$/.test(name)) continue;
    const row = readProcess(Number(name));
    if (row) rows.push(row);
  }
  return rows;
}

function readProcess(pid: number): ProcessRow | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The command's name stands in brackets and may hold anything, brackets included.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state, parent, group, session] = fields;
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
      began: fields[19] ?? "",
      ended: state === "Z" || state === "X",
    };
  } catch {
    return undefined;
  }
}

function hasMarker(pid: number, marker: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(marker);
  } catch {
    return false;
  }
}
