import { fitsWildcard } from "../../shared/core-tools/wildcard.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { Command } from "../../shared/process/run-command.ts";

/** How far commands go on this machine. */
export type ExecMode = "off" | "allow-list" | "ask" | "full";

/** What this machine's configuration says about commands. */
export interface ExecSettings {
  /** `off`: none runs. `allow-list`: those of `allow`. `ask`: each with an approval. `full`: all. */
  readonly mode: ExecMode;
  /**
   * Commands that an `allow-list` machine runs: a bare program name (found on the path) or a path, then words that the
   * arguments must begin with. `*` in a word stands for any characters; as the last word for any arguments.
   */
  readonly allow: readonly string[];
}

/**
 * The command as it may be run, or `POLICY_DENIED` with side `node` and the rule, or `APPROVAL_REQUIRED` where a person
 * must be asked and was not. Under an allow list a shell line is taken apart here and runs without a shell.
 */
export function admitCommand(command: Command, settings: ExecSettings, approvalId: string): Command {
  switch (settings.mode) {
    case "full":
      return command;
    case "off":
      throw new Fault("POLICY_DENIED", "the node runs no commands", {
        hint: "allow them on the node: exec.mode in its configuration (fairlead node config check), or --exec of fairlead node join",
        details: { side: "node", rule: "exec.mode" },
      });
    case "ask":
      if (approvalId !== "") return command;
      throw new Fault("APPROVAL_REQUIRED", "the node runs a command only when a person has allowed it", {
        details: { side: "node", rule: "exec.mode" },
      });
    case "allow-list":
      return admitListed(command, settings.allow);
  }
}

function admitListed(command: Command, allow: readonly string[]): Command {
  const argv = "argv" in command ? command.argv : splitPlainLine(command.shell);
  if (!argv) {
    throw deny("the line cannot be taken apart with certainty, and the node runs listed commands only", {
      hint: "give the command as a list of words",
    });
  }
  if (allow.some((entry) => fitsEntry(entry, argv))) return { argv };
  throw deny(
    `${JSON.stringify(argv[0].slice(0, 200))} with these arguments is not on the node's list of commands`,
    {
      hint: "add it to exec.allow in the node's configuration (fairlead node config check)",
    },
  );
}

function deny(message: string, options: { readonly hint: string }): Fault {
  return new Fault("POLICY_DENIED", message, { ...options, details: { side: "node", rule: "exec.allow" } });
}

function fitsEntry(entry: string, argv: readonly string[]): boolean {
  const words = entry.trim().split(/\s+/);
  const isOpen = words.length > 1 && words.at(-1) === "*";
  const needed = isOpen ? words.slice(0, -1) : words;
  const [program = ""] = argv;
  const [wanted = ""] = needed;
  // A bare name means a look-up on the path: `./git` is another program than `git`.
  if (wanted.includes("/") !== program.includes("/")) return false;
  return needed.length <= argv.length && needed.every((word, index) => fitsWildcard(word, argv[index] ?? ""));
}

const plainWord = /'([^'\n]*)'|"([^"\\$`\n!]*)"|([A-Za-z0-9_./:@%+,=-]+)|([ \t]+)/gy;

/** A line of plain and quoted words as argv; undefined for anything that a shell would do more with. */
function splitPlainLine(line: string): readonly [string, ...string[]] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let at = 0;
  plainWord.lastIndex = 0;
  for (let match = plainWord.exec(line); match; match = plainWord.exec(line)) {
    const [whole, single, double, plain, space] = match;
    if (space === undefined) {
      word = (word ?? "") + (single ?? double ?? plain ?? "");
    } else if (word !== undefined) {
      words.push(word);
      word = undefined;
    }
    at += whole.length;
  }
  if (word !== undefined) words.push(word);
  const [first, ...rest] = words;
  // `NAME=value command` sets a variable; what has not been read to its end is more than words.
  if (at !== line.length || first === undefined || first === "" || first.includes("=")) return undefined;
  return [first, ...rest];
}
