import { serviceCommands } from "../../shared/service/service-commands.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { readNodeSettings } from "../config/node-settings.ts";
import { loadIdentity } from "../pairing/identity.ts";

/** The commands of the node's service. A home without an identity, or with a wrong configuration, gets none. */
export const nodeServiceCommands: readonly CommandModule[] = serviceCommands({
  program: "node",
  prepare: async (_, runtime) => {
    await loadIdentity(runtime.home.nodeDir);
    await readNodeSettings(runtime);
    return [];
  },
});
