import { formatProblem, readConfig, tryReadConfig } from "../../shared/config/read-config.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { flattenConfig, showOrigins } from "../../shared/terminal/config-view.ts";
import { nodeConfigSchema } from "../config/node-config.ts";
import { nodeConfigFile, resolveNodeSettings } from "../config/node-settings.ts";
import { withoutHome } from "../workspace/export-settings.ts";
import { requireRules } from "../workspace/file-policy.ts";

/** The `node config` commands. */
export const configCommands: readonly CommandModule[] = [
  {
    words: "node config show",
    summary: "the effective configuration, with where each value came from",
    example: "fairlead node config show",
    run: async (_, runtime) => {
      const config = await readConfig(nodeConfigFile(runtime.home), nodeConfigSchema);
      const { workspaces, exec, installs, path, limits } = resolveNodeSettings(config, runtime);
      const shown = workspaces.map(withoutHome);
      const values = flattenConfig({ workspaces: shown, exec, installs, path, limits });
      await showOrigins(runtime.output, {
        values,
        config,
        fallback: (key) => (key[0] === "path" ? "environment PATH" : "default"),
      });
    },
  },
  {
    words: "node config check",
    summary: "name every mistake in the configuration file",
    example: "fairlead node config check",
    run: async (_, runtime) => {
      const file = nodeConfigFile(runtime.home);
      const reading = await tryReadConfig(file, nodeConfigSchema);
      const problems = reading.kind === "problems" ? reading.problems : [];
      if (reading.kind === "read") requireRules(resolveNodeSettings(reading.config, runtime).workspaces);
      await runtime.output.result({ file, problems: problems.map((problem) => ({ ...problem })) }, () =>
        problems.length === 0
          ? [`${file} is right`]
          : problems.map((one) => `${formatProblem(one)}${one.hint === undefined ? "" : `; ${one.hint}`}`),
      );
      return problems.length === 0 ? 0 : 1;
    },
  },
];
