import { type ProgramOptions, runProgram } from "../../shared/terminal/program.ts";
import { groups } from "./commands.ts";

/** Runs a command of the node's side; gives the exit status. */
export function run(options: Omit<ProgramOptions, "groups">): Promise<number> {
  return runProgram({ ...options, groups });
}
