import { rm } from "node:fs/promises";
import path from "node:path";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { readNodeStatus, removeNodeStatus } from "../config/status-file.ts";
import { eraseIdentity, loadIdentity, type NodeIdentity } from "../pairing/identity.ts";
import { takeHome } from "./hold-home.ts";
import { openJobsHere } from "./jobs.ts";

const partial = 7;

/** `node leave`: unpairs this machine and erases its identity; exports and configuration stay. */
export const leave: CommandModule = {
  words: "node leave",
  summary: "unpair this machine and erase its identity",
  example: "fairlead node leave",
  run: async (_, runtime) => {
    const { nodeDir } = runtime.home;
    const status = await readNodeStatus(nodeDir);
    if (status?.state === "waiting_for_approval" && !(await hasIdentity(nodeDir)))
      return await giveUpWaiting(runtime, status.requestId ?? "");
    const identity = await readIdentity(nodeDir);
    using _lock = await takeHome(runtime, "fairlead node leave");
    const { leaveGateway } = await import("../pairing/leave.ts");
    await endJobs(runtime);
    const left = await leaveGateway({ dir: nodeDir, clock: runtime.clock, signal: runtime.signal });
    await removeNodeStatus(nodeDir);
    await eraseTraces(nodeDir);
    const nodeId = left.nodeId || (identity?.nodeId ?? "");
    const nextStep = left.told ? "" : `fairlead nodes revoke ${nodeId || "NODE"}`;
    await runtime.output.result({ nodeId: nodeId || null, told: left.told, nextStep }, () =>
      left.told
        ? [`${identity?.alias ?? "this machine"} has left; its identity is erased`]
        : [
            "the identity is erased, but the gateway could not be told",
            `an administrator ends it there: ${nextStep}`,
          ],
    );
    return left.told ? 0 : partial;
  },
};

/** What still runs for sessions of the gateway ends with the membership. */
async function endJobs(runtime: Runtime): Promise<void> {
  using running = await openJobsHere(runtime);
  const left = new Fault("CANCELLED", "the machine has left its gateway", { details: { reason: "left" } });
  await Promise.all(running.jobs.map((job) => running.end(job, left)));
}

/** What commands said and how calls ended was the gateway's to ask for; nobody asks any more. */
async function eraseTraces(nodeDir: string): Promise<void> {
  const traces = ["jobs", ...["", "-wal", "-shm"].map((ending) => `ledger.db${ending}`)];
  for (const name of traces)
    await rm(path.join(nodeDir, name), { recursive: true, force: true, maxRetries: 3 });
}

async function hasIdentity(nodeDir: string): Promise<boolean> {
  try {
    await loadIdentity(nodeDir);
    return true;
  } catch (error) {
    return !isFault(error, "NOT_FOUND");
  }
}

/** A machine that only waits has nothing to unpair; its request stands at the gateway until somebody decides. */
async function giveUpWaiting(runtime: Runtime, requestId: string): Promise<number> {
  const { nodeDir } = runtime.home;
  using _ = await takeHome(runtime, "fairlead node leave");
  await eraseIdentity(nodeDir);
  await removeNodeStatus(nodeDir);
  const nextStep = `fairlead nodes reject ${requestId}`;
  await runtime.output.result({ nodeId: null, told: false, requestId, nextStep }, () => [
    "this machine waits no more; its key is erased",
    `an administrator takes its request from the list: ${nextStep}`,
  ]);
  return partial;
}

/** Undefined for a damaged identity: erasing it is what is asked for, whoever it was. */
async function readIdentity(nodeDir: string): Promise<NodeIdentity | undefined> {
  try {
    return await loadIdentity(nodeDir);
  } catch (error) {
    if (isFault(error, "INTEGRITY_FAILURE")) return undefined;
    throw error;
  }
}
