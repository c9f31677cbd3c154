import type { CommandModule } from "../../shared/terminal/command.ts";
import { configCommands } from "./config.ts";
import { doctor } from "./doctor.ts";
import { jobsCommands } from "./jobs.ts";
import { join } from "./join.ts";
import { leave } from "./leave.ts";
import { run } from "./node-run.ts";
import { nodeServiceCommands } from "./service.ts";
import { status } from "./status.ts";
import { workspaceCommands } from "./workspace.ts";

/** Every command of the node's side, in the order of the help. */
export const commands: readonly CommandModule[] = [
  join,
  run,
  status,
  doctor,
  ...jobsCommands,
  ...workspaceCommands,
  ...configCommands,
  ...nodeServiceCommands,
  leave,
];
