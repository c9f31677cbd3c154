import type { Environment } from "../config/environment.ts";
import type { Home } from "../config/home.ts";
import type { Clock } from "../lifetime/clock.ts";
import type { Output } from "./output.ts";
import type { StandardInput } from "./standard-input.ts";

/** What a command works with: everything of the process that it may touch. */
export interface Runtime {
  /** Where state lives. */
  readonly home: Home;
  /** The environment, read once. */
  readonly environment: Environment;
  /** The gateway named with `--gateway`. */
  readonly gatewayUrl: string | undefined;
  /** The file this program was started from, for starting it again with `process.execPath`. */
  readonly entry: string;
  /** This program's version. */
  readonly version: string;
  readonly output: Output;
  readonly input: StandardInput;
  readonly clock: Clock;
  /** Aborts at the first SIGINT or SIGTERM; the reason is a `CANCELLED` fault with `details.signal`. */
  readonly signal: AbortSignal;
  /** What `--deadline` said, in milliseconds. */
  readonly deadlineMs: number | undefined;
  /** Of a command about which policy may ask a person: whether it waits for them. */
  readonly asking?: { readonly noWait: boolean };
}
