import { existsSync } from "node:fs";
import { join } from "node:path";
import { findAdminSocket } from "../../gateway/cli/find-admin-socket.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { startDeadline, raceSignal, systemClock } from "../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";

/** What calls go to. */
export interface CallerOptions {
  readonly gatewayHome: string;
  /** The folder that is exported as `devbox:/app`. */
  readonly folder: string;
  /** Ends the calling; a call that runs is waited for. */
  readonly signal: AbortSignal;
}

/** How calls ended, and what was wrong with that. */
export interface CallTally {
  readonly byOutcome: Map<string, number>;
  /** Outcomes that contradict what is on the disk, and calls that never ended. */
  readonly wrong: string[];
  count: number;
}

const deadlineMs = 20_000;

/** A call that has not ended so long after its deadline is lost. */
const graceMs = 10_000;

/** Codes with which a call surely had no effect. */
const withoutEffect: ReadonlySet<string> = new Set(["WORKSPACE_ACCESS_UNAVAILABLE", "NODE_OFFLINE"]);

/** Makes folders, one call after the other, until the signal aborts. Each call runs at most once. */
export async function callOn(options: CallerOptions, name: string, tally: CallTally): Promise<void> {
  for (let at = 0; !options.signal.aborted; at += 1) {
    const path = `${name}-${at}`;
    tally.count += 1;
    const outcome = await makeFolder(options, path);
    tally.byOutcome.set(outcome, (tally.byOutcome.get(outcome) ?? 0) + 1);
    const isThere = existsSync(join(options.folder, path));
    if (outcome === "lost") tally.wrong.push(`${path} never ended`);
    if (outcome === "ok" && !isThere) tally.wrong.push(`${path} succeeded and is not there`);
    if (withoutEffect.has(outcome) && isThere) tally.wrong.push(`${path} ended with ${outcome} and is there`);
    // Whoever is refused at once does not ask again at once.
    if (outcome !== "ok") await systemClock.sleep(200);
  }
}

async function makeFolder({ gatewayHome }: CallerOptions, path: string): Promise<string> {
  using limit = startDeadline({ timeoutMs: deadlineMs + graceMs });
  try {
    const socket = await findAdminSocket(join(gatewayHome, "gateway"));
    await using client = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const made = client.client(Files).makeFolder({ workspace: "devbox:/app", path }, { deadlineMs });
    await raceSignal(made, limit.signal);
    return "ok";
  } catch (error) {
    return limit.signal.aborted ? "lost" : faultFromError(error).code;
  }
}
