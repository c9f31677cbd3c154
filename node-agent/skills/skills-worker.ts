import { Fault } from "../../shared/fault/fault.ts";
import { runWorker } from "../workers/run-worker.ts";
import { serveSkills, type ServeSkillsOptions } from "./serve-skills.ts";

/** The Skills worker: `--serve` for the agent (framed stdio). Any other start is one line on standard error. */
async function main(argv: readonly string[]): Promise<void> {
  if (argv.length !== 1 || argv[0] !== "--serve")
    throw new Fault("INVALID_ARGUMENT", "start it with --serve");
  await runWorker(async (settings) => serveSkills(settings as ServeSkillsOptions));
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = 2;
  const text = error instanceof Fault ? `${error.message} (${error.code})` : String(error);
  process.stderr.write(`skills worker: ${text.replaceAll(/\s+/g, " ")}\n`);
}
