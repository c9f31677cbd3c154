import { hostname } from "node:os";
import path from "node:path";
import { Fault } from "../../shared/fault/fault.ts";
import { parseWorkspaceName } from "../../shared/names/alias.ts";
import { installAndTell, requireSystemd, scopeOption } from "../../shared/service/service-commands.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { addExports, nameInUse } from "../config/edit-node-config.ts";
import type { WorkspaceConfig } from "../config/node-config.ts";
import { type ExecMode, nodeConfigFile, readNodeSettings } from "../config/node-settings.ts";
import { readNodeStatus } from "../config/status-file.ts";
import { assertExportable } from "./check-folder.ts";
import { holdHome } from "./hold-home.ts";
import { startJoinReport } from "./join-report.ts";
import { loadAgent, runAgent, runOptions } from "./run-agent.ts";

const execModes: readonly ExecMode[] = ["allow-list", "ask", "full"];
const codeMaxBytes = 8_192;

/** `node join`: a key, an enrolment, an identity; then the agent runs. */
export const join: CommandModule = {
  words: "node join",
  summary: "join a gateway with this machine, then run",
  example: "fairlead node join CODE --workspace app=./app:rw --exec ask",
  args: [{ name: "<code>", text: "the join code, or - to read it from standard input" }],
  options: [
    { flags: "--name <alias>", text: "the alias this machine would like" },
    { flags: "--workspace <name=dir>", text: "export a folder; read only, or NAME=DIR:rw", many: true },
    { flags: "--exec <mode>", text: `let commands run: ${execModes.join(", ")} (default none)` },
    { flags: "--new-identity", text: "become another node, when this home is a copy of another machine's" },
    { flags: "--service", text: "install and start the service, instead of running in the foreground" },
    scopeOption,
    ...runOptions,
  ],
  run: async (input, runtime) => {
    const exec = parseExecMode(input.text("exec"));
    const asked = input.texts("workspace").map((text) => parseWorkspaceOption(text));
    const { names, workspaces } = await checkWorkspaces(asked, runtime);
    if (input.flag("service")) await requireSystemd(input, runtime, "node");
    using held = await holdHome(runtime, "fairlead node join");
    const wishedAlias = input.text("name");
    const { joinGateway } = await import("../pairing/join.ts");
    const existing = await chooseExisting(input, runtime);
    const report = await startJoinReport(runtime, existing);
    const joined = await joinGateway({
      code: await readCode(input, runtime),
      dir: runtime.home.nodeDir,
      ...(wishedAlias === undefined ? {} : { wishedAlias }),
      workspaces: names,
      existing,
      hostName: hostname(),
      platform: process.platform,
      agentVersion: runtime.version,
      clock: runtime.clock,
      signal: runtime.signal,
      continues: report.continues,
      otherKey: report.isCopy,
      onWait: async (wait) => {
        await report.onWait(wait);
        loadAgent().catch(() => undefined);
      },
    }).catch(report.failed);
    await addExports(nodeConfigFile(runtime.home), { workspaces, exec });
    const { nodeId, alias } = joined.identity;
    const { profile, wishKept } = joined;
    const instead = wishedAlias !== undefined && !wishKept ? ` (not ${wishedAlias})` : "";
    await runtime.output.event({ event: "joined", nodeId, alias, profile }, () => [
      `joined as ${alias}${instead}, node ${nodeId}, profile ${profile}`,
    ]);
    if (input.flag("service")) {
      held[Symbol.dispose]();
      return await installAndTell(input, runtime, { program: "node", args: [] });
    }
    return await runAgent(input, runtime, { isLookedFor: report.hasWaited() });
  },
};

/**
 * What becomes of an identity that is there. One that the gateway has ended is replaced: an unknown or expired one keeps
 * its key, a revoked one is over, and the machine says so.
 */
async function chooseExisting(
  input: CommandInput,
  runtime: Runtime,
): Promise<"refuse" | "same_key" | "new_key"> {
  if (input.flag("new-identity")) return "new_key";
  const status = await readNodeStatus(runtime.home.nodeDir);
  if (status?.joinsAs !== undefined) return status.joinsAs;
  // The key of the gateway's authority was changed while this machine was away: only a code lets it in again.
  if (status?.reason === "foreign_certificate") return "same_key";
  if (status?.state !== "offline" || status.retryable) return "refuse";
  if (status.code === "IDENTITY_UNKNOWN" || status.code === "IDENTITY_EXPIRED") return "same_key";
  if (status.code !== "IDENTITY_REVOKED") return "refuse";
  runtime.output.note(
    "note: the identity of this home was revoked; this machine joins with a new key, as another node",
  );
  return "new_key";
}

async function readCode(input: CommandInput, runtime: Runtime): Promise<string> {
  const code = input.argument("code");
  if (code !== "-") return code.trim();
  return await runtime.input.readLine({
    what: "the join code",
    maxBytes: codeMaxBytes,
    signal: runtime.signal,
  });
}

function parseExecMode(text: string | undefined): ExecMode | undefined {
  const mode = execModes.find((known) => known === text);
  if (text === undefined || mode !== undefined) return mode;
  throw new Fault("INVALID_ARGUMENT", `--exec ${text} is no way to run commands`, {
    hint: `use one of ${execModes.join(", ")}; without --exec none runs`,
    details: { field: "exec", actual: text },
  });
}

/** `NAME=DIR` or `NAME=DIR:rw` as an export; relative folders are taken from where the command runs. */
export function parseWorkspaceOption(text: string): WorkspaceConfig {
  const at = text.indexOf("=");
  if (at <= 0 || at === text.length - 1) {
    throw new Fault("INVALID_ARGUMENT", `--workspace ${text} is not NAME=DIR`, {
      hint: "write it like --workspace app=./app, or app=./app:rw to let it be written",
      details: { field: "workspace", actual: text },
    });
  }
  const [, dir = "", access] = /^(.*?)(?::(rw|ro))?$/s.exec(text.slice(at + 1)) ?? [];
  return {
    name: parseWorkspaceName(text.slice(0, at)),
    dir: path.resolve(dir),
    ...(access === "rw" ? { write: ["**"] } : {}),
  };
}

interface CheckedExports {
  /** Every name that will be exported. */
  readonly names: readonly string[];
  /** What is not in the configuration yet. */
  readonly workspaces: readonly WorkspaceConfig[];
}

/** Everything that can be wrong with the exports is found before the gateway is asked. One that stands there is no mistake. */
async function checkWorkspaces(asked: readonly WorkspaceConfig[], runtime: Runtime): Promise<CheckedExports> {
  const { workspaces: known } = await readNodeSettings(runtime);
  const names = new Set(known.map(({ name }) => name));
  const workspaces: WorkspaceConfig[] = [];
  for (const workspace of asked) {
    const same = known.find(({ name, dir }) => name === workspace.name && dir === workspace.dir);
    await assertExportable(workspace.dir, runtime.home.dir);
    if (same && same.write.length > 0 === (workspace.write !== undefined)) continue;
    if (names.has(workspace.name)) throw nameInUse(workspace.name);
    names.add(workspace.name);
    workspaces.push(workspace);
  }
  return { names: [...names], workspaces };
}
