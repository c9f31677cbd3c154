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
  signalAll(root, scope, "SIGTERM");
  const graceUntil = clock.now() + options.graceMs;
  while (clock.now() < graceUntil) {
    if (findTree(root, scope).length === 0) return [];
    await clock.sleep(Math.min(pollMs, options.graceMs));
  }
  const proofUntil = clock.now() + options.proofMs;
  for (;;) {
    const left = findTree(root, scope);
    if (left.length === 0) return [];
    if (clock.now() >= proofUntil) return left;
    // Repeated, as a process may have been forked between the look and the signal.
    signalAll(root, scope, "SIGKILL");
    await clock.sleep(pollMs);
  }
}

/** The living processes of a tree. */
export function findTree(root: TreeRoot, scope: TreeScope): readonly number[] {
  const isKnown = root.pid > 0;
  if (platform !== "linux") return isKnown && isGroupAlive(root.pid) ? [root.pid] : [];
  const rows = readProcesses();
  const inTree = new Set<number>(isKnown ? [root.pid] : []);
  for (const row of rows) {
    if (isKnown && (row.session === root.pid || row.group === root.pid)) inTree.add(row.pid);
    else if (scope === "all" && hasMarker(row.pid, root.marker)) inTree.add(row.pid);
  }
  if (scope === "all") addDescendants(rows, inTree);
  return rows.filter((row) => inTree.has(row.pid) && !row.ended).map((row) => row.pid);
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

function signalAll(root: TreeRoot, scope: TreeScope, signal: "SIGTERM" | "SIGKILL"): void {
  if (root.pid > 0) sendSignal(-root.pid, signal);
  for (const pid of findTree(root, scope)) sendSignal(pid, signal);
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
    const [state, parent, group, session] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
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
