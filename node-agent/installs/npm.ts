import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Fault } from "../../shared/fault/fault.ts";
import { type Environment, scrubEnvironment } from "../../shared/process/environment.ts";
import { type CommandResult, runCommand } from "../../shared/process/run-command.ts";
import type { PlannedPackage } from "../../shared/skill-file/install-plan.ts";

/** How npm is run here. */
export interface NpmOptions {
  /** This program's own environment, of which little passes. */
  readonly own: Environment;
  /** `PATH` of commands. */
  readonly path: string;
  /** npm's file, absolute. */
  readonly npm: string;
  /** The only registry that it may ask. */
  readonly registry: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Every package of an install, fixed, as npm writes it. */
export interface NpmLock {
  /** `package.json` and `package-lock.json`. */
  readonly manifest: string;
  readonly lock: string;
  /** The version that the asked package came to. */
  readonly version: string;
  /** In order of their places. */
  readonly packages: readonly PlannedPackage[];
}

/** What npm is given to install exactly what a lock says, with no package's own code run. */
export function npmInstallArguments(registry: string): readonly string[] {
  return ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--registry", registry];
}

/** Names of the variables that npm gets beside those that name user, language and folders. */
export const npmVariables: readonly string[] = [
  "CI",
  "HOME",
  "NODE_EXTRA_CA_CERTS",
  "npm_config_cache",
  "npm_config_fetch_retries",
  "npm_config_fetch_retry_maxtimeout",
  "npm_config_fetch_retry_mintimeout",
  "npm_config_globalconfig",
  "npm_config_ignore_scripts",
  "npm_config_update_notifier",
  "npm_config_userconfig",
];

/**
 * Fixes what `value` (a package, with or without a version) comes to now, in a folder of its own that is gone afterwards.
 * `INSTALL_FAILED` with the reason when npm fails, `INTEGRITY_FAILURE` for a package that is not of the registry or has
 * no hash there.
 */
export async function lockPackage(value: string, options: NpmOptions): Promise<NpmLock> {
  const dir = await mkdtemp(path.join(tmpdir(), "fairlead-plan-"));
  try {
    const { name, range } = splitPackage(value);
    const manifest = `${JSON.stringify({ private: true, dependencies: { [name]: range } }, null, 2)}\n`;
    await writeFile(path.join(dir, "package.json"), manifest);
    const words = ["install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"];
    await runNpm([...words, "--registry", options.registry], dir, options);
    const lock = await readFile(path.join(dir, "package-lock.json"), "utf8");
    const packages = readPackages(lock, options.registry);
    const version = packages.find((one) => one.name === name)?.version;
    if (version === undefined) throw new Fault("INSTALL_FAILED", `npm did not find ${name}`, outdated);
    return { manifest, lock, version, packages };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Installs what a lock says into `dir`; what is not as the lock says is not installed. */
export async function installLocked(lock: NpmLock, dir: string, options: NpmOptions): Promise<void> {
  await writeFile(path.join(dir, "package.json"), lock.manifest);
  await writeFile(path.join(dir, "package-lock.json"), lock.lock);
  await runNpm(npmInstallArguments(options.registry), dir, options);
  await rm(path.join(dir, ".npm"), { recursive: true, force: true });
}

const outdated = {
  details: { reason: "recipe_outdated" },
  hint: "mend the skill's recipe: the package or version is not in the registry",
} as const;

function splitPackage(value: string): { readonly name: string; readonly range: string } {
  const at = value.indexOf("@", 1);
  return at < 0 ? { name: value, range: "latest" } : { name: value.slice(0, at), range: value.slice(at + 1) };
}

async function runNpm(args: readonly string[], cwd: string, options: NpmOptions): Promise<void> {
  const own = path.join(cwd, ".npm");
  const { variables } = scrubEnvironment({
    own: options.own,
    path: options.path,
    // Nobody's settings, tokens or cache: what is installed depends on the plan alone.
    fixed: {
      CI: "1",
      HOME: own,
      // Whom the machine trusts is the machine's own word: behind a proxy that looks into TLS nothing is reached without.
      NODE_EXTRA_CA_CERTS: options.own["NODE_EXTRA_CA_CERTS"],
      npm_config_cache: path.join(own, "cache"),
      npm_config_userconfig: path.join(own, "user"),
      npm_config_globalconfig: path.join(own, "global"),
      npm_config_ignore_scripts: "true",
      npm_config_update_notifier: "false",
      // A registry that does not answer is told as such while somebody waits, not after minutes.
      npm_config_fetch_retries: "2",
      npm_config_fetch_retry_mintimeout: "500",
      npm_config_fetch_retry_maxtimeout: "2000",
    },
  });
  const { signal, timeoutMs, npm } = options;
  const result = await runCommand({ argv: [npm, ...args] }, { cwd, env: variables, signal, timeoutMs });
  if (result.timedOut)
    throw new Fault("DEADLINE_EXCEEDED", `npm did not end within ${timeoutMs} ms`, {
      details: toDetails(result),
    });
  if (result.exitCode !== 0) throw toFailure(result);
}

function toFailure(result: CommandResult): Fault {
  const said = `${result.stderr.head.toString()}${result.stderr.tail.toString()}`;
  const details = toDetails(result);
  if (result.exitCode === undefined) {
    return new Fault("INSTALL_FAILED", `npm was ended by ${result.signal}`, {
      details: { ...details, reason: "killed" },
      hint: "see whether the machine ran out of memory, and repeat it",
    });
  }
  if (/\b(?:ENOSPC|EDQUOT)\b/.test(said))
    return new Fault("DISK_FULL", "the disk is full: nothing was installed", {
      details: { ...details, errno: "ENOSPC" },
      hint: "make room where the node keeps its state, and repeat it",
    });
  if (/\bEINTEGRITY\b/.test(said))
    return new Fault("INTEGRITY_FAILURE", "the registry sent other bytes than were planned", { details });
  if (/\bE404\b|\bETARGET\b/.test(said))
    return new Fault("INSTALL_FAILED", "npm did not find the package", {
      ...outdated,
      details: { ...details, ...outdated.details },
    });
  if (/\bE(?:NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|AI_AGAIN)\b/.test(said)) {
    return new Fault("INSTALL_FAILED", "npm did not reach the registry", {
      details: { ...details, reason: "network" },
      hint: "see whether the machine reaches the registry that installs.registries names, and repeat it",
    });
  }
  if (/\b(?:SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_\w+|CERT_\w+)\b/.test(said)) {
    return new Fault("INSTALL_FAILED", "npm does not trust the registry's certificate", {
      details: { ...details, reason: "untrusted" },
      hint: "start the node's agent with NODE_EXTRA_CA_CERTS naming the certificates that this machine trusts",
    });
  }
  return new Fault("INSTALL_FAILED", `npm ended with status ${result.exitCode}: ${lastWords(said)}`, {
    details,
    hint: "see its last lines in details.stderr (--json)",
  });
}

/** The line that says most: what npm says of its own log follows it. */
function lastWords(said: string): string {
  const lines = said.split("\n").map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim());
  return lines.findLast((line) => line !== "" && !line.startsWith("A complete log"))?.slice(0, 200) ?? "";
}

const shownLines = 20;

function toDetails({ exitCode, signal, durationMs, stdout, stderr }: CommandResult) {
  const last = ({ head, tail }: CommandResult["stdout"]): string =>
    `${head.toString()}${tail.toString()}`.trimEnd().split("\n").slice(-shownLines).join("\n");
  return {
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(signal === undefined ? {} : { signal }),
    durationMs,
    stdout: last(stdout),
    stderr: last(stderr),
  };
}

interface LockedPackage {
  readonly version?: unknown;
  readonly resolved?: unknown;
  readonly integrity?: unknown;
  readonly hasInstallScript?: unknown;
}

function readPackages(lock: string, registry: string): readonly PlannedPackage[] {
  const parsed = JSON.parse(lock) as { readonly packages?: Readonly<Record<string, LockedPackage>> };
  const origin = new URL(registry).origin;
  return Object.entries(parsed.packages ?? {})
    .filter(([place]) => place !== "")
    .map(([place, { version, resolved, integrity }]) => {
      const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
      const isWhole =
        typeof version === "string" && typeof resolved === "string" && typeof integrity === "string";
      if (!isWhole || !URL.canParse(resolved) || new URL(resolved).origin !== origin) {
        throw new Fault("INTEGRITY_FAILURE", `${name} is not of the registry, or has no hash there`, {
          details: { package: name, registry },
        });
      }
      return { name, version, source: resolved, integrity };
    });
}
