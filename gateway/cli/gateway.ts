import type { CommandModule } from "../../shared/terminal/command.ts";
import { authorityCommands } from "./gateway-authority.ts";
import { gatewayBackup, gatewayRestore } from "./gateway-backup.ts";
import { configCommands } from "./gateway-config.ts";
import { gatewayRun } from "./gateway-run.ts";
import { gatewayServiceCommands } from "./gateway-service.ts";
import { gatewayStatus } from "./gateway-status.ts";

/** The `gateway` commands. */
export const commands: readonly CommandModule[] = [
  gatewayRun,
  ...gatewayServiceCommands,
  gatewayStatus,
  gatewayBackup,
  gatewayRestore,
  ...configCommands,
  ...authorityCommands,
];
