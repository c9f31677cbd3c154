import type { OptionSpec } from "../../../shared/terminal/command.ts";

/** Narrows a command to the documents that an agent is begun with. */
export const bootstrapOption: OptionSpec = {
  flags: "--bootstrap",
  text: "only what agents are begun with: AGENTS.md, SOUL.md, IDENTITY.md, USER.md, BOOTSTRAP.md, MEMORY.md",
};
