import { createHash } from "node:crypto";

/** Which of the two programs a service runs. */
export type ServiceProgram = "node" | "gateway";

/** Whose systemd runs it: the one of a logged-in user, or the one of the machine. */
export type ServiceScope = "user" | "system";

/** What a service is made of. */
export interface ServiceSpec {
  readonly program: ServiceProgram;
  readonly scope: ServiceScope;
  /** The command that systemd runs: absolute paths, nothing is looked up. */
  readonly command: readonly string[];
  /** `PATH` of whoever installed it: systemd has a short one of its own, and commands are looked for here. */
  readonly path: string;
  /** The user that a system service runs as, by number; absent: its owner. */
  readonly uid?: number;
}

/**
 * Statuses after which nothing is gained by another start: wrong usage or configuration, refused or revoked, no
 * identity. A person has to act first.
 */
export const finalStatuses: readonly number[] = [2, 3, 4];

const restartSeconds = 5;
const stopSeconds = 30;

/** Large buffers come from huge pages: their memory costs a fraction of the page faults. Other C libraries ignore it. */
const allocator: Readonly<Record<string, string>> = { GLIBC_TUNABLES: "glibc.malloc.hugetlb=1" };

/** The name of the service of a home, without the ending: plain for the default home, with a digest for any other. */
export function serviceName(program: ServiceProgram, homeDir: string, defaultHomeDir: string): string {
  const name = `fairlead-${program}`;
  if (homeDir === defaultHomeDir) return name;
  return `${name}-${createHash("sha256").update(homeDir).digest("hex").slice(0, 8)}`;
}

/** The text of the unit file. Equal specs give equal text. */
export function unitFile(spec: ServiceSpec): string {
  const environment = { PATH: spec.path, ...allocator };
  const isSystem = spec.scope === "system";
  return [
    `# Written by \`fairlead ${spec.program} install\`, and written anew by the next one.`,
    "# What you want otherwise belongs in a drop-in, which stays: systemctl edit.",
    "[Unit]",
    `Description=Fairlead ${spec.program === "node" ? "node agent" : "gateway"}`,
    ...(isSystem ? ["Wants=network-online.target", "After=network-online.target"] : []),
    "StartLimitIntervalSec=0",
    "",
    "[Service]",
    "Type=exec",
    `ExecStart=${spec.command.map(quoteWord).join(" ")}`,
    ...Object.entries(environment).map(([name, value]) => `Environment=${quote(`${name}=${value}`)}`),
    ...(isSystem && spec.uid !== undefined ? [`User=${spec.uid}`] : []),
    "Restart=on-failure",
    `RestartSec=${restartSeconds}`,
    "# Wrong configuration, revoked or unknown, no identity: only a person can mend these.",
    `RestartPreventExitStatus=${finalStatuses.join(" ")}`,
    ...(spec.program === "node" ? leavesJobs : ["KillMode=mixed"]),
    `TimeoutStopSec=${stopSeconds}`,
    "StandardOutput=journal",
    "StandardError=journal",
    "",
    "[Install]",
    `WantedBy=${isSystem ? "multi-user.target" : "default.target"}`,
    "",
  ].join("\n");
}

const leavesJobs = [
  "# Commands of sessions outlive the agent: the next one meets them again. One that takes all memory ends alone.",
  "KillMode=process",
  "OOMPolicy=continue",
] as const;

/** A word of a command line, in which `$` would name a variable. */
function quoteWord(text: string): string {
  return quote(text).replaceAll("$", "$$$$");
}

/** One value, whatever it holds: `%` would begin a specifier. */
function quote(text: string): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replaceAll("%", "%%");
  return `"${escaped}"`;
}
