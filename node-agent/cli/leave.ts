import { isFault } from "../../shared/fault/fault.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { removeNodeStatus } from "../config/status-file.ts";
import { loadIdentity, type NodeIdentity } from "../pairing/identity.ts";
import { takeHome } from "./hold-home.ts";

const partial = 7;

/** `node leave`: unpairs this machine and erases its identity; exports and configuration stay. */
export const leave: CommandModule = {
  words: "node leave",
  summary: "unpair this machine and erase its identity",
  example: "fairlead node leave",
  run: async (_, runtime) => {
    const { nodeDir } = runtime.home;
    const identity = await readIdentity(nodeDir);
    using _lock = await takeHome(runtime, "fairlead node leave");
    const { leaveGateway } = await import("../pairing/leave.ts");
    const left = await leaveGateway({ dir: nodeDir, clock: runtime.clock, signal: runtime.signal });
    await removeNodeStatus(nodeDir);
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

/** Undefined for a damaged identity: erasing it is what is asked for, whoever it was. */
async function readIdentity(nodeDir: string): Promise<NodeIdentity | undefined> {
  try {
    return await loadIdentity(nodeDir);
  } catch (error) {
    if (isFault(error, "INTEGRITY_FAILURE")) return undefined;
    throw error;
  }
}
