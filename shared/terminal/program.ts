import { Command, CommanderError, Option } from "commander";
import { readEnvironment } from "../config/environment.ts";
import { resolveHome } from "../config/home.ts";
import { packageVersion } from "../config/package-root.ts";
import { Fault, isFault } from "../fault/fault.ts";
import { systemClock } from "../lifetime/clock.ts";
import { type ParsedInput, createCommandInput } from "./command-input.ts";
import type { CommandGroup, CommandModule } from "./command.ts";
import { parseDurationMs } from "./duration.ts";
import { type Interruption, listenForInterruption } from "./interruption.ts";
import { type Output, createOutput } from "./output.ts";
import { reportError } from "./report-error.ts";
import type { Runtime } from "./runtime.ts";
import { createStandardInput } from "./standard-input.ts";

/** What a side of the program hands over to be run. */
export interface ProgramOptions {
  /** Arguments after the program's name. */
  readonly argv: readonly string[];
  /** The file the program was started from. */
  readonly entry: string;
  /** Every first word, in the order of the help. */
  readonly groups: readonly CommandGroup[];
}

/** The longest `--deadline`. */
const longestDeadlineMs = 86_400_000;

type Chosen = { readonly module: CommandModule; readonly input: ParsedInput };

/** Parses the arguments, runs the command that they name and gives the exit status. Prints every error itself. */
export async function runProgram(options: ProgramOptions): Promise<number> {
  const { argv } = options;
  const environment = readEnvironment();
  const output = createOutput({
    stdout: process.stdout,
    stderr: process.stderr,
    // Wanted before the arguments are known to be right: their errors are printed the same way.
    json: wantsJson(argv),
    noColor: environment.noColor,
  });
  using interruption = listenForInterruption({ events: process, onSecond: () => process.exit(130) });
  let chosen: Chosen | undefined;
  try {
    chosen = await choose(options);
    if (chosen === undefined) return 0;
    const runtime = createRuntime(chosen, { options, output, interruption });
    return (await chosen.module.run(createCommandInput(chosen.input), runtime)) ?? 0;
  } catch (error) {
    if (isBrokenPipe(error)) return 0;
    // Who asked may have left; the status is then all that can be said.
    return await reportError(output, withUsageHint(error, chosen?.module)).catch(() => 1);
  }
}

/** Wrong usage, and time that ran out, have a next command also where the fault itself knows none. */
function withUsageHint(error: unknown, module: CommandModule | undefined): unknown {
  if (!isFault(error) || error.hint !== undefined || !module) return error;
  if (error.code === "DEADLINE_EXCEEDED" && module.callsNode)
    return error.with({ hint: "repeat it with more time, such as --deadline 10m" });
  if (error.code !== "INVALID_ARGUMENT" && error.code !== "PATH_INVALID") return error;
  return error.with({ hint: `fairlead ${module.words} --help` });
}

function createRuntime(
  chosen: Chosen,
  made: { readonly options: ProgramOptions; readonly output: Output; readonly interruption: Interruption },
): Runtime {
  const environment = readEnvironment();
  const given = chosen.input.options;
  const text = (name: string): string | undefined => {
    const value = given[name];
    if (value === "") throw new Fault("INVALID_ARGUMENT", `--${name} is empty`, { details: { field: name } });
    return typeof value === "string" ? value : undefined;
  };
  const home = text("home");
  return {
    home: resolveHome({ environment, ...(home === undefined ? {} : { option: home }) }),
    environment,
    gatewayUrl: text("gateway"),
    entry: made.options.entry,
    version: packageVersion(),
    output: made.output,
    input: createStandardInput(process.stdin),
    clock: systemClock,
    signal: made.interruption.signal,
    deadlineMs: readDeadline(text("deadline")),
    ...(chosen.module.asks ? { asking: { noWait: given["wait"] === false } } : {}),
  };
}

function readDeadline(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const deadlineMs = parseDurationMs(text, "deadline");
  if (deadlineMs <= longestDeadlineMs) return deadlineMs;
  throw new Fault("INVALID_ARGUMENT", `--deadline is ${text}; the longest is 24h`, {
    details: { field: "deadline", actual: deadlineMs, limit: longestDeadlineMs },
  });
}

/** Whether `--json` stands among the arguments that are the program's own (not behind `--`). */
function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return (end === -1 ? argv : argv.slice(0, end)).includes("--json");
}

function isBrokenPipe(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EPIPE";
}

/** Finds the command and its input; undefined when help or the version was asked for and printed. */
async function choose(options: ProgramOptions): Promise<Chosen | undefined> {
  let chosen: Chosen | undefined;
  const root = createRoot();
  const word = firstWord(options.argv);
  for (const group of options.groups) {
    const commands = group.word === word ? (await group.load?.())?.commands : undefined;
    addGroup(root, group, commands ?? []).forEach(([command, module]) => {
      command.action((...given: unknown[]) => {
        chosen = { module, input: toInput(module, command, given) };
      });
    });
  }
  try {
    if (word === undefined && !options.argv.some((text) => text.startsWith("-"))) root.outputHelp();
    else await root.parseAsync(helpOfKnown(root, options.argv), { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw error.code === "commander.help"
      ? missingCommand(root, options.argv)
      : faultFromUsage(error, findLevel(root, options.argv));
  }
  return chosen;
}

/** The first argument that is neither an option nor an option's value. */
export function firstWord(argv: readonly string[]): string | undefined {
  return commandWords(argv).next().value;
}

/** The arguments that are neither options nor the values of those that every level has. */
function* commandWords(argv: readonly string[]): Generator<string, undefined> {
  const takesValue = new Set(["--home", "--gateway", "--deadline"]);
  let skip = false;
  for (const text of argv) {
    if (skip) skip = false;
    else if (takesValue.has(text)) skip = true;
    else if (!text.startsWith("-")) yield text;
  }
  return undefined;
}

function createRoot(): Command {
  const root = new Command("fairlead")
    .description("lets an agent session that lives on a gateway work on remote machines")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpCommand(false);
  prepare(root, "fairlead up");
  return root;
}

/** Adds a first word; gives each command that can be run with its module. */
function addGroup(
  root: Command,
  group: CommandGroup,
  modules: readonly CommandModule[],
): readonly (readonly [Command, CommandModule])[] {
  const alone = modules.find((module) => module.words === group.word);
  if (alone) return [[addCommand(root, group.word, alone), alone]];
  const parent = prepare(root.command(group.word).description(group.summary), group.example);
  const made: (readonly [Command, CommandModule])[] = [];
  const parents = new Map<string, Command>([[group.word, parent]]);
  for (const module of modules) {
    const words = module.words.split(" ");
    const name = words.pop() ?? "";
    made.push([addCommand(findParent(parents, words, modules), name, module), module]);
  }
  return made;
}

/** The level above a command; one that no module describes lists what is in it, with the example of the first. */
function findParent(
  parents: Map<string, Command>,
  words: readonly string[],
  modules: readonly CommandModule[],
): Command {
  const name = words.join(" ");
  const known = parents.get(name);
  if (known) return known;
  const above = findParent(parents, words.slice(0, -1), modules);
  const inside = modules.filter((module) => module.words.startsWith(`${name} `));
  const summary = inside.map((module) => module.words.slice(name.length + 1)).join(", ");
  const made = prepare(
    above.command(words.at(-1) ?? "").description(summary),
    inside[0]?.example ?? `fairlead ${name} --help`,
  );
  parents.set(name, made);
  return made;
}

/** A level of commands was named, but none of them. */
function missingCommand(root: Command, argv: readonly string[]): Fault {
  const level = findLevel(root, argv);
  const words = namesOf(level).join(" ");
  const names = level.commands.map((command) => command.name()).join(", ");
  return new Fault("INVALID_ARGUMENT", `${words} needs one of: ${names}`, {
    hint: `${words} --help`,
    details: { field: "command" },
  });
}

const helpFlags: readonly string[] = ["-h", "--help"];

/** The arguments; without the wish for help when they name a command that there is not, so that this is what is said. */
function helpOfKnown(root: Command, argv: readonly string[]): readonly string[] {
  let level = root;
  for (const word of commandWords(argv)) {
    if (level.commands.length === 0) return argv;
    const found = level.commands.find((command) => command.name() === word);
    if (!found) return argv.filter((text) => !helpFlags.includes(text));
    level = found;
  }
  return argv;
}

/** The command, or the level of commands, that the arguments name. */
function findLevel(root: Command, argv: readonly string[]): Command {
  let level = root;
  for (const word of argv) level = level.commands.find((command) => command.name() === word) ?? level;
  return level;
}

function namesOf(command: Command): readonly string[] {
  return command.parent ? [...namesOf(command.parent), command.name()] : [command.name()];
}

function addCommand(parent: Command, name: string, module: CommandModule): Command {
  const command = prepare(parent.command(name).description(module.summary), module.example);
  for (const argument of module.args ?? []) command.argument(argument.name, argument.text);
  for (const option of module.options ?? []) {
    const made = new Option(option.flags, option.text);
    if (option.many)
      made.argParser((value: string, before: unknown) => [...(Array.isArray(before) ? before : []), value]);
    command.addOption(made);
  }
  if (module.callsNode)
    command.option("--deadline <time>", "give up after this time, such as 90s (default 60s, at most 24h)");
  if (module.asks) command.option("--no-wait", "fail with APPROVAL_REQUIRED instead of waiting for a person");
  return command;
}

/** What every level has: the shared options, an example, and errors that are ours to print. */
function prepare(command: Command, example: string): Command {
  return command
    .option("--home <dir>", "folder of Fairlead's state")
    .option("--gateway <url>", "the gateway to talk to")
    .option("--json", "print results as JSON")
    .helpOption("-h, --help", "show this help")
    .addHelpText("after", `\nExample:\n  ${example}`)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ writeErr: () => undefined, outputError: () => undefined });
}

function toInput(module: CommandModule, command: Command, given: readonly unknown[]): ParsedInput {
  const args = new Map<string, string | readonly string[] | undefined>();
  for (const [index, spec] of (module.args ?? []).entries()) {
    const value = given[index];
    const name = spec.name.replace(/[<>[\]]|\.\.\./g, "");
    args.set(name, typeof value === "string" || Array.isArray(value) ? value : undefined);
  }
  return { args, options: command.optsWithGlobals() };
}

/** Commander's complaint as a fault: the suggestion, or the help of that level, becomes the hint. */
function faultFromUsage(error: CommanderError, level: Command): Fault {
  const [first = "wrong usage", ...rest] = error.message.replace(/^error: /, "").split("\n");
  const [, suggestion] = /\(Did you mean (.*)\?\)/.exec(rest.join(" ")) ?? [];
  const help = [...namesOf(level), "--help"].join(" ");
  return new Fault("INVALID_ARGUMENT", first, {
    hint: suggestion === undefined ? help : `did you mean ${suggestion}? See ${help}`,
    details: { field: "arguments", reason: error.code.replace("commander.", "") },
  });
}
