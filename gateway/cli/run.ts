import { type ProgramOptions, runProgram } from "../../shared/terminal/program.ts";
import { groups } from "./commands.ts";

/** Runs a command of the gateway's side, or of an administrator; gives the exit status. */
export function run(options: Omit<ProgramOptions, "groups">): Promise<number> {
  return runProgram({ ...options, groups });
}
