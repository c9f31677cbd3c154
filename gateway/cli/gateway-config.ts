import path from "node:path";
import { formatProblem, readConfig, tryReadConfig } from "../../shared/config/read-config.ts";
import type { CommandModule, OptionSpec } from "../../shared/terminal/command.ts";
import { flattenConfig, showOrigins } from "../../shared/terminal/config-view.ts";
import { gatewayConfigSchema, resolveGatewaySettings } from "../config/gateway-settings.ts";
import { showEmbeddings, showMemory } from "../config/memory-config.ts";

const fileOption: OptionSpec = { flags: "--config <file>", text: "another configuration file" };

/** The `gateway config` commands. */
export const configCommands: readonly CommandModule[] = [
  {
    words: "gateway config show",
    summary: "the effective configuration, with where each value came from",
    example: "fairlead gateway config show",
    options: [fileOption],
    run: async (input, runtime) => {
      const file = input.text("config") ?? defaultFile(runtime.home.gatewayDir);
      const config = await readConfig(file, gatewayConfigSchema);
      const { listen, http, advertise, policyFile, agents, embeddings, memory, limits } =
        resolveGatewaySettings(runtime.home.gatewayDir, config);
      const values = flattenConfig({
        listen,
        http,
        advertise,
        policyFile,
        agents,
        embeddings: showEmbeddings(embeddings),
        memory: showMemory(memory),
        limits,
      });
      await showOrigins(runtime.output, { values, config, fallback: () => "default" });
    },
  },
  {
    words: "gateway config check",
    summary: "name every mistake in the configuration file",
    example: "fairlead gateway config check",
    options: [fileOption],
    run: async (input, runtime) => {
      const file = input.text("config") ?? defaultFile(runtime.home.gatewayDir);
      const reading = await tryReadConfig(file, gatewayConfigSchema);
      const problems = reading.kind === "problems" ? reading.problems : [];
      if (reading.kind === "read") resolveGatewaySettings(runtime.home.gatewayDir, reading.config);
      await runtime.output.result({ file, problems: problems.map((problem) => ({ ...problem })) }, () =>
        problems.length === 0
          ? [`${file} is right`]
          : problems.map((one) => `${formatProblem(one)}${one.hint === undefined ? "" : `; ${one.hint}`}`),
      );
      return problems.length === 0 ? 0 : 1;
    },
  },
];

function defaultFile(gatewayDir: string): string {
  return path.join(gatewayDir, "config.yaml");
}
