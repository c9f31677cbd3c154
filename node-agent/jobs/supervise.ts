// The process that runs the jobs of a node: started by the agent, and not ended with it. It loads little, on purpose.
import process from "node:process";
import { Fault } from "../../shared/fault/fault.ts";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { startSupervisor } from "./supervisor.ts";

/** Arguments: the folder of the jobs, the supervisor's name, the version, the time that jobs have without a link. */
const [jobsDir = "", name = "", version = "", unlinkedMs = ""] = process.argv.slice(2);

const supervisor = await startSupervisor({
  jobsDir,
  name,
  version,
  unlinkedMs: Number(unlinkedMs),
  clock: systemClock,
  onFault: (error) => void process.stderr.write(`${String(error)}\n`),
});
const stop = (): void =>
  supervisor.stop(
    new Fault("CANCELLED", "the jobs of the node were ended", { details: { reason: "stopped" } }),
  );
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
// A terminal that goes away takes its agent with it, not the jobs.
process.on("SIGHUP", () => undefined);
process.stdout.on("error", () => undefined);
process.stdout.write("ready\n");
await supervisor.closed;
process.exit(0);
