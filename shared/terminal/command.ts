import type { CommandInput } from "./command-input.ts";
import type { Runtime } from "./runtime.ts";

/** An option of a command, in commander's notation: `--limit <n>`, `--strict`, `--no-open`. */
export interface OptionSpec {
  /** The long flag and, in `<…>`, the name of its value. */
  readonly flags: string;
  /** What it does, for the help: lower case, no full stop. */
  readonly text: string;
  /** Whether it may be given several times. */
  readonly many?: true;
}

/** A positional argument: `<node>` is required, `[file]` may be left out, `[file...]` takes all the rest. */
export interface ArgumentSpec {
  readonly name: string;
  /** What it is, for the help: lower case, no full stop. */
  readonly text: string;
}

/** One command: data plus a function. `--help`, `--home`, `--json` and `--gateway` are added to every one. */
export interface CommandModule {
  /** The words that call it, without the program's name: `files ls`. */
  readonly words: string;
  /** One line for the list of commands: lower case, no full stop. */
  readonly summary: string;
  /** A working example, with the program's name; shown at the end of its help. */
  readonly example: string;
  readonly args?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  /** Whether it calls a node: it then takes `--deadline`. */
  readonly callsNode?: true;
  /** Whether policy may ask a person about what it does: it then takes `--no-wait`. */
  readonly asks?: true;
  /**
   * Does it. A number is the exit status (default 0); a Fault that it throws is printed with its hint and gives the
   * status of its code. Must heed `runtime.signal`.
   */
  readonly run: (input: CommandInput, runtime: Runtime) => Promise<number | void>;
}

/** A first word of the command line. Its module is loaded only when the word is used. */
export interface CommandGroup {
  readonly word: string;
  /** One line for the list of commands: lower case, no full stop. */
  readonly summary: string;
  /** A working example, with the program's name. */
  readonly example: string;
  /** Loads the commands; absent when the other side has them. */
  readonly load?: () => Promise<{ readonly commands: readonly CommandModule[] }>;
}
