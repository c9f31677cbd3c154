import path from "node:path";
import { serviceCommands } from "../../shared/service/service-commands.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { readGatewayConfig, resolveGatewaySettings } from "../config/gateway-settings.ts";
import { gatewayRunOptions } from "./gateway-run.ts";

/** The commands of the gateway's service. `install` takes the options of `gateway run`, checked as it does. */
export const gatewayServiceCommands: readonly CommandModule[] = serviceCommands({
  program: "gateway",
  options: gatewayRunOptions,
  prepare: runArguments,
});

async function runArguments(input: CommandInput, runtime: Runtime): Promise<readonly string[]> {
  const { gatewayDir } = runtime.home;
  const given = input.text("config");
  const file = given === undefined ? undefined : path.resolve(given);
  const listen = input.text("listen");
  const http = input.text("http");
  const advertise = input.texts("advertise");
  resolveGatewaySettings(gatewayDir, await readGatewayConfig(gatewayDir, file), { listen, http, advertise });
  const named = { "--config": file, "--listen": listen, "--http": http };
  return [
    ...Object.entries(named).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value])),
    ...advertise.flatMap((address) => ["--advertise", address]),
  ];
}
