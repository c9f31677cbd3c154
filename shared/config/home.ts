import path from "node:path";
import envPaths from "env-paths";
import type { Environment } from "./environment.ts";

/** The folder that holds all state of this user's Fairlead. Two homes on one machine never meet. */
export interface Home {
  /** Absolute. */
  readonly dir: string;
  /** State of the gateway. */
  readonly gatewayDir: string;
  /** State of the node. */
  readonly nodeDir: string;
}

/** Where the home may be named. */
export interface HomeOptions {
  /** `--home`. */
  readonly option?: string;
  readonly environment: Pick<Environment, "home">;
}

/** The home: the option, else the environment, else the platform's data folder. Makes no folder. */
export function resolveHome(options: HomeOptions): Home {
  const named = options.option ?? options.environment.home;
  const dir = path.resolve(named ?? envPaths("fairlead", { suffix: "" }).data);
  return { dir, gatewayDir: path.join(dir, "gateway"), nodeDir: path.join(dir, "node") };
}
