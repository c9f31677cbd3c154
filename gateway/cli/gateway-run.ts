import { createCommandLog } from "../../shared/terminal/command-log.ts";
import type { CommandModule, OptionSpec } from "../../shared/terminal/command.ts";
import { untilStopped } from "../../shared/terminal/interruption.ts";
import { readGatewayConfig, resolveGatewaySettings } from "../config/gateway-settings.ts";
import { finishRestore } from "../store/finish-restore.ts";

/** Where a gateway listens and what configures it. */
export const gatewayRunOptions: readonly OptionSpec[] = [
  { flags: "--config <file>", text: "configuration file (default: gateway/config.yaml in the home)" },
  {
    flags: "--listen <host:port>",
    text: "gRPC over TLS, for nodes and remote admins (default 127.0.0.1:7443)",
  },
  { flags: "--http <host:port>", text: "MCP and health, on loopback (default 127.0.0.1:7480)" },
  { flags: "--advertise <host:port>", text: "an address that join codes carry", many: true },
];

/** `gateway run`: the gateway in the foreground, until it is stopped. */
export const gatewayRun: CommandModule = {
  words: "gateway run",
  summary: "run the gateway in the foreground",
  example: "fairlead gateway run --listen 0.0.0.0:7443 --advertise gateway.example:7443",
  options: gatewayRunOptions,
  run: async (input, runtime) => {
    const { gatewayDir } = runtime.home;
    await finishRestore(gatewayDir);
    const config = await readGatewayConfig(gatewayDir, input.text("config"));
    const settings = resolveGatewaySettings(gatewayDir, config, {
      listen: input.text("listen"),
      http: input.text("http"),
      advertise: input.texts("advertise"),
    });
    // The one command that needs all of this side.
    const { startGateway } = await import("../gateway.ts");
    const log = createCommandLog(runtime);
    await using gateway = await startGateway(settings, {
      clock: runtime.clock,
      log,
      version: runtime.version,
      embeddingsKey: runtime.environment.embeddingsKey,
      environment: process.env,
    });
    const { link, http } = gateway.addresses;
    await runtime.output.event({ event: "ready", link, http, pin: gateway.pin, pid: process.pid }, () => [
      `ready link ${link} http ${http} pin ${gateway.pin}`,
    ]);
    return await untilStopped(runtime.signal, gateway.closed);
  },
};
