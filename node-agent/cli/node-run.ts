import type { CommandModule } from "../../shared/terminal/command.ts";
import { holdHome } from "./hold-home.ts";
import { runAgent, runOptions } from "./run-agent.ts";

/** `node run`: the agent in the foreground. */
export const run: CommandModule = {
  words: "node run",
  summary: "run the agent in the foreground",
  example: "fairlead node run",
  options: runOptions,
  run: async (input, runtime) => {
    using _ = await holdHome(runtime, "fairlead node run");
    return await runAgent(input, runtime);
  },
};
