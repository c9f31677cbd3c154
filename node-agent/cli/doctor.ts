import { lookup } from "node:dns/promises";
import { readFile, stat, statfs } from "node:fs/promises";
import { isIP } from "node:net";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import { parseAddress } from "../../shared/identity/address.ts";
import { startDeadline } from "../../shared/lifetime/clock.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { readNodeSettings } from "../config/node-settings.ts";
import { type ReadNodeStatus, readNodeStatus } from "../config/status-file.ts";
import { findIdentity, type NodeIdentity } from "../pairing/identity.ts";
import { type AskedTime, askGatewayTime, judgeClock } from "../pairing/mend-before-dial.ts";
import { attackExports } from "./doctor-attack.ts";

/** What one look found. */
interface Finding {
  readonly check: string;
  /** `skipped`: it could not be looked at, and something else says why. */
  readonly state: "ok" | "warning" | "failed" | "skipped";
  readonly message: string;
  /** What a person can do. */
  readonly hint?: string;
}

const askTimeoutMs = 10_000;
const minFreeBytes = 64 * 1024 * 1024;
const lowFreeBytes = 1024 * 1024 * 1024;
const lowWatches = 65_536;
const clockTolerancesMs = 300_000;

/** `node doctor`: looks at everything that a link and its work stand on, whether or not the agent runs. */
export const doctor: CommandModule = {
  words: "node doctor",
  summary: "check identity, gateway, clock, DNS, TLS, disk, watch limits and exports of this machine",
  example: "fairlead node doctor",
  options: [
    {
      flags: "--attack",
      text: "instead, attack in each workspace what keeps its files inside, for at most a minute; sessions see none of it",
    },
  ],
  run: async (input, runtime) => {
    if (input.flag("attack")) return await attackExports(runtime);
    const { identity, finding } = await lookAtIdentity(runtime);
    const status = await readNodeStatus(runtime.home.nodeDir);
    const findings: readonly Finding[] = [
      finding,
      ...(identity ? await lookAtGateway(identity, runtime) : []),
      ...lookAtCutOff(status),
      lookAtAgent(status),
      await lookAtHome(runtime),
      await lookAtDisk(runtime),
      ...(await lookAtWatches()),
      ...(await lookAtExports(runtime)),
    ];
    const isWell = findings.every(({ state }) => state !== "failed");
    await runtime.output.result({ ok: isWell, checks: findings.map(toJson) }, () =>
      findings.flatMap(toLines),
    );
    return isWell ? 0 : 1;
  },
};

function toJson({ check, state, message, hint }: Finding): JsonValue {
  return { check, state, message, hint: hint ?? null };
}

function toLines({ check, state, message, hint }: Finding): readonly string[] {
  return [`${state} ${check}: ${message}`, ...(hint === undefined ? [] : [`  ${hint}`])];
}

function toFinding(check: string, error: unknown): Finding {
  const { message, code, hint } = faultFromError(error);
  return { check, state: "failed", message: `${message} (${code})`, ...(hint === undefined ? {} : { hint }) };
}

interface LookedIdentity {
  readonly identity: NodeIdentity | undefined;
  readonly finding: Finding;
}

async function lookAtIdentity(runtime: Runtime): Promise<LookedIdentity> {
  const check = "identity";
  try {
    const identity = await findIdentity(runtime.home.nodeDir);
    if (!identity) {
      const message = "this machine has joined no gateway";
      return {
        identity,
        finding: { check, state: "failed", message, hint: "fairlead node join CODE" },
      };
    }
    const { alias, nodeId } = identity;
    return { identity, finding: { check, state: "ok", message: `node ${alias} (${nodeId})` } };
  } catch (error) {
    return { identity: undefined, finding: toFinding(check, error) };
  }
}

/** Each address by name, connection and pin; then what only a gateway that proved itself can tell: whose clock is wrong. */
async function lookAtGateway(identity: NodeIdentity, runtime: Runtime): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  let asked: AskedTime | undefined;
  for (const address of identity.addresses) {
    findings.push(...(await lookAtName(address)));
    const { clock } = runtime;
    const begunAt = clock.now();
    try {
      using deadline = startDeadline({ timeoutMs: askTimeoutMs, signal: runtime.signal, clock });
      const { signal } = deadline;
      const answer = await askGatewayTime(identity, { address, clock, signal });
      asked ??= answer;
      const message = `${address} answers and proves its key, in ${Math.round(clock.now() - begunAt)} ms`;
      findings.push({ check: "gateway", state: "ok", message });
    } catch (error) {
      runtime.signal.throwIfAborted();
      findings.push(toFinding(`gateway ${address}`, error));
    }
  }
  return [...findings, lookAtClock(asked), lookAtCertificate(identity, asked)];
}

async function lookAtName(address: string): Promise<readonly Finding[]> {
  const { host } = parseAddress(address);
  if (isIP(host) !== 0) return [];
  try {
    const found = await lookup(host, { all: true });
    return [
      { check: "dns", state: "ok", message: `${host} is ${found.map((one) => one.address).join(", ")}` },
    ];
  } catch (error) {
    const message = `${host} is not found: ${error instanceof Error ? error.message : "unknown"}`;
    return [{ check: "dns", state: "failed", message, hint: "check the name and this machine's DNS" }];
  }
}

function lookAtClock(asked: AskedTime | undefined): Finding {
  const check = "clock";
  if (!asked) return { check, state: "skipped", message: "no gateway answered that could be asked" };
  const fault = judgeClock(asked);
  if (fault) return toFinding(check, fault);
  const offSeconds = Math.round(asked.offMs / 1000);
  const message = `${Math.abs(offSeconds)} s ${offSeconds < 0 ? "behind" : "ahead of"} the gateway's`;
  if (Math.abs(asked.offMs) <= clockTolerancesMs) return { check, state: "ok", message };
  return { check, state: "warning", message, hint: "set the clock of this machine" };
}

function lookAtCertificate(identity: NodeIdentity, asked: AskedTime | undefined): Finding {
  const check = "certificate";
  const until = new Date(identity.certificateExpiresAt).toISOString();
  if (!asked || judgeClock(asked))
    return { check, state: "skipped", message: `until ${until}; it is judged by a right clock only` };
  if (asked.gatewayNow < identity.certificateExpiresAt)
    return { check, state: "ok", message: `until ${until}; it is renewed by itself` };
  return {
    check,
    state: "warning",
    message: `lapsed at ${until}`,
    hint: "the agent renews it by itself, up to 90 days later: fairlead node run",
  };
}

/** The gateway answers, but takes no certificate of this machine any more: that shows in the last dial only. */
function lookAtCutOff(status: ReadNodeStatus | undefined): readonly Finding[] {
  if (status?.reason !== "foreign_certificate") return [];
  const message = "the key that signed the certificate of this machine counts no more at the gateway";
  return [{ check: "certificate", state: "failed", message, hint: "fairlead node join CODE" }];
}

function lookAtAgent(status: ReadNodeStatus | undefined): Finding {
  const check = "agent";
  if (!status?.isAlive)
    return { check, state: "warning", message: "it does not run", hint: "fairlead node run" };
  const { pid, state, reason, nextStep } = status;
  const message = `process ${pid} is ${state} (${reason.replaceAll("_", " ")})`;
  if (state === "online") return { check, state: "ok", message };
  return { check, state: "warning", message, ...(nextStep === "" ? {} : { hint: nextStep }) };
}

async function lookAtHome(runtime: Runtime): Promise<Finding> {
  const check = "permissions";
  const dir = runtime.home.nodeDir;
  const found = await stat(dir).catch(() => undefined);
  if (!found) return { check, state: "skipped", message: "the home is not there yet" };
  const mode = found.mode & 0o777;
  if (process.platform === "win32" || (mode & 0o077) === 0)
    return { check, state: "ok", message: `${dir} is for its owner alone` };
  return {
    check,
    state: "failed",
    message: `${dir} has mode ${mode.toString(8)}: others than its owner may enter it`,
    hint: `chmod 700 ${dir}`,
  };
}

async function lookAtDisk(runtime: Runtime): Promise<Finding> {
  const check = "disk";
  const found = await statfs(runtime.home.nodeDir).catch(() => undefined);
  if (!found) return { check, state: "skipped", message: "the home is not there yet" };
  const freeBytes = found.bavail * found.bsize;
  const message = `${Math.floor(freeBytes / 1024 / 1024)} MiB free for the home`;
  if (freeBytes >= lowFreeBytes) return { check, state: "ok", message };
  const state = freeBytes >= minFreeBytes ? "warning" : "failed";
  return { check, state, message, hint: "free some space on that disk" };
}

/** Nothing where the kernel has no such limit. */
async function lookAtWatches(): Promise<readonly Finding[]> {
  if (process.platform !== "linux") return [];
  const check = "watches";
  const text = await readFile("/proc/sys/fs/inotify/max_user_watches", "utf8").catch(() => "");
  const limit = Number(text);
  if (text === "" || !Number.isFinite(limit))
    return [{ check, state: "skipped", message: "the kernel does not say how many there can be" }];
  const message = `the kernel allows ${limit} for a user`;
  if (limit >= lowWatches) return [{ check, state: "ok", message }];
  const hint = "large folders are scanned on a timer instead; sysctl fs.inotify.max_user_watches=524288";
  return [{ check, state: "warning", message, hint }];
}

async function lookAtExports(runtime: Runtime): Promise<readonly Finding[]> {
  try {
    const { workspaces } = await readNodeSettings(runtime);
    return await Promise.all(
      workspaces.map(async ({ name, dir }): Promise<Finding> => {
        const found = await stat(dir).catch(() => undefined);
        if (found?.isDirectory()) return { check: "workspace", state: "ok", message: `${name} is ${dir}` };
        const hint = `make the folder, or: fairlead node workspace rm ${name}`;
        return { check: "workspace", state: "failed", message: `${name}: ${dir} is no folder`, hint };
      }),
    );
  } catch (error) {
    return [toFinding("configuration", error)];
  }
}
