import type { Environment } from "../../shared/process/environment.ts";
import { findBinary } from "../../shared/process/find-binary.ts";
import { isTrueAt, type MachineFacts } from "../../shared/skill-file/gates.ts";

/** What the facts of this machine are read from; asked again each time, so that a changed configuration holds at once. */
export interface FactSources {
  /** This program's own environment. */
  readonly environment: Environment;
  /** `PATH` of commands. */
  readonly path: () => string;
  /** The configuration in force. */
  readonly configuration: () => unknown;
}

/** The facts of this machine at one moment: each binary is looked for once. */
export function readMachineFacts({ environment, path, configuration }: FactSources): MachineFacts {
  const looked = new Map<string, Promise<boolean>>();
  const searchPath = path();
  return {
    platform: process.platform,
    hasBinary: (name) => {
      const known = looked.get(name);
      if (known) return known;
      const found = findBinary(name, searchPath).then((file) => file !== undefined);
      looked.set(name, found);
      return found;
    },
    hasVariable: (name) => (environment[name] ?? "") !== "",
    isEnabled: (setting) => isTrueAt(configuration(), setting),
  };
}
