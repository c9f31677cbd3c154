import { Fault, type JsonValue } from "../fault/fault.ts";
import { safeText } from "../log/safe-text.ts";
import type { CommandInput } from "../terminal/command-input.ts";
import type { CommandModule, OptionSpec } from "../terminal/command.ts";
import type { Runtime } from "../terminal/runtime.ts";
import {
  findService,
  installService,
  openSystemdOf,
  serviceNotes,
  servicePlace,
  type ServiceRuntime,
  type PlaceWithStatus,
  uninstallService,
  unitTextOf,
} from "./installed-service.ts";
import type { ServiceProgram, ServiceScope } from "./unit-file.ts";

/** What a program says of its service. */
export interface ServiceCommandsOptions {
  readonly program: ServiceProgram;
  /** Options of `install` that go into the command of the service. */
  readonly options?: readonly OptionSpec[];
  /** Finds what would keep the service from running, and gives the arguments that follow `run`. */
  readonly prepare: (input: CommandInput, runtime: Runtime) => Promise<readonly string[]>;
}

/** Chooses whose systemd runs it. */
export const scopeOption: OptionSpec = {
  flags: "--scope <scope>",
  text: "whose systemd runs it: user or system (default: system for root, else user)",
};

const journalLines = { min: 1, max: 100_000 };

/** `install`, `uninstall`, `start`, `stop`, `restart` and `logs` of a program's service. */
export function serviceCommands(options: ServiceCommandsOptions): readonly CommandModule[] {
  const { program } = options;
  return [
    install(options),
    {
      words: `${program} uninstall`,
      summary: "stop the service and take it off this machine",
      example: `fairlead ${program} uninstall`,
      run: async (_, runtime) => {
        const place = await findService(runtime, program);
        await uninstallService(runtime, place);
        const { name: service, scope, file } = place;
        await runtime.output.result({ service, scope, file, installed: false }, () => [
          `${service} is uninstalled`,
        ]);
      },
    },
    control(program, "start", "start the service"),
    control(program, "stop", "stop the service until it is started again"),
    control(program, "restart", "stop the service and start it"),
    logs(program),
  ];
}

/** Installs and starts the service, and tells about it. */
export async function installAndTell(
  input: CommandInput,
  runtime: Runtime,
  { program, args }: { readonly program: ServiceProgram; readonly args: readonly string[] },
): Promise<void> {
  const place = servicePlace(runtime, program, parseScope(input.text("scope")));
  const shown = await installService(runtime, place, args);
  await tell(runtime, shown);
  for (const note of await serviceNotes(runtime, place)) runtime.output.note(note);
}

/** Fails where no systemd answers: before anything is done that cannot be taken back. */
export async function requireSystemd(
  input: CommandInput,
  runtime: Runtime,
  program: ServiceProgram,
): Promise<void> {
  await openSystemdOf(runtime, servicePlace(runtime, program, parseScope(input.text("scope"))));
}

function install({ program, options = [], prepare }: ServiceCommandsOptions): CommandModule {
  return {
    words: `${program} install`,
    summary: "run it as a service of systemd, now and after every start of the machine",
    example: `fairlead ${program} install`,
    options: [...options, scopeOption, { flags: "--print", text: "print the unit file and change nothing" }],
    run: async (input, runtime) => {
      const args = await prepare(input, runtime);
      if (!input.flag("print")) return await installAndTell(input, runtime, { program, args });
      const place = servicePlace(runtime, program, parseScope(input.text("scope")));
      const text = await unitTextOf(runtime, place, args);
      await runtime.output.result({ service: place.name, scope: place.scope, file: place.file, text }, () =>
        text.trimEnd().split("\n"),
      );
    },
  };
}

function control(
  program: ServiceProgram,
  verb: "start" | "stop" | "restart",
  summary: string,
): CommandModule {
  return {
    words: `${program} ${verb}`,
    summary,
    example: `fairlead ${program} ${verb}`,
    run: async (_, runtime) => {
      const place = await findService(runtime, program);
      const systemd = await openSystemdOf(runtime, place);
      await systemd.control([verb, place.name]);
      await tell(runtime, { ...place, status: await systemd.show(place.name) });
    },
  };
}

function logs(program: ServiceProgram): CommandModule {
  return {
    words: `${program} logs`,
    summary: "what the service wrote, as the journal has it",
    example: `fairlead ${program} logs --follow`,
    options: [
      { flags: "--follow", text: "go on with what it writes from now on" },
      { flags: "--lines <n>", text: "so many of the last lines (default 100)" },
    ],
    run: async (input, runtime) => {
      const place = await findService(runtime, program);
      const systemd = await openSystemdOf(runtime, place);
      const decoder = new TextDecoder();
      let rest = "";
      await systemd.journal(place.name, {
        lines: input.integer("lines", journalLines) ?? 100,
        follow: input.flag("follow"),
        signal: runtime.signal,
        onOutput: async (chunk) => {
          const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
          rest = lines.pop() ?? "";
          for (const line of lines) await runtime.output.event({ line }, () => [line]);
        },
      });
    },
  };
}

async function tell(runtime: ServiceRuntime, shown: PlaceWithStatus): Promise<void> {
  const { name: service, scope, file } = shown;
  const { state, substate, pid, restarts, lastStatus } = shown.status;
  const value: JsonValue = {
    service,
    scope,
    file,
    state,
    substate,
    pid: pid === 0 ? null : pid,
    restarts,
    lastStatus,
  };
  await runtime.output.result(value, () => [
    `${service} (${scope}): ${safeText(state)}${pid === 0 ? "" : `, process ${pid}`}`,
  ]);
}

function parseScope(text: string | undefined): ServiceScope {
  if (text === undefined) return process.getuid?.() === 0 ? "system" : "user";
  if (text === "user" || text === "system") return text;
  throw new Fault("INVALID_ARGUMENT", `--scope ${text} is none`, {
    hint: "use user or system",
    details: { field: "scope", actual: text },
  });
}
