import type { JsonValue } from "../fault/fault.ts";
import { isMapping } from "./fields.ts";

/** What must hold on a machine before a skill is offered. A list that was not written is empty. */
export interface SkillGates {
  /** Waives every gate but `os`. */
  readonly always: boolean;
  readonly os: readonly string[];
  /** All of these binaries. */
  readonly bins: readonly string[];
  /** One of these binaries. */
  readonly anyBins: readonly string[];
  /** Environment variables that are set and not empty. */
  readonly env: readonly string[];
  /** Settings that are true. */
  readonly config: readonly string[];
}

/** The gates, in the order in which they are judged and told. */
export const gateNames = ["os", "bins", "anyBins", "env", "config"] as const;

/** A gate by its name in the front matter. */
export type GateName = (typeof gateNames)[number];

/** A gate that does not hold, with what it misses: names only, never a value. */
export interface FailedGate {
  readonly gate: GateName;
  readonly missing: readonly string[];
}

/** What a machine says of itself, for the gates of the skills that are judged there. */
export interface MachineFacts {
  /** As Node names it: `linux`, `darwin`, `win32`. */
  readonly platform: string;
  /** Whether commands of this machine would find that binary. */
  readonly hasBinary: (name: string) => Promise<boolean>;
  /** Whether the environment variable is set and not empty. */
  readonly hasVariable: (name: string) => boolean;
  /** Whether the setting, by its dotted path, is true. */
  readonly isEnabled: (setting: string) => boolean;
}

/** Vendor mappings below `metadata` that may hold the gates too, as files made for other programs do. */
const vendorKeys = ["fairlead", "openclaw"];

/** The gates of a front matter whose fields were checked: at its top, else below `metadata.fairlead` or `metadata.openclaw`. */
export function readGates(frontMatter: { readonly [key: string]: JsonValue }): SkillGates {
  const metadata = mappingOf(frontMatter["metadata"]);
  const places = [frontMatter, ...vendorKeys.map((key) => mappingOf(metadata[key]))];
  const find = (path: readonly string[]): JsonValue | undefined => {
    for (const place of places) {
      const value = path.reduce<JsonValue | undefined>((at, key) => ownValue(at, key), place);
      if (value !== undefined) return value;
    }
    return undefined;
  };
  const list = (...path: readonly string[]): readonly string[] => {
    const value = find(path);
    return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
  };
  return {
    always: find(["always"]) === true,
    os: list("os"),
    bins: list("requires", "bins"),
    anyBins: list("requires", "anyBins"),
    env: list("requires", "env"),
    config: list("requires", "config"),
  };
}

/** Every gate that does not hold on the machine that `facts` speak of, in their order; empty when the skill may be offered. */
export async function judgeGates(gates: SkillGates, facts: MachineFacts): Promise<readonly FailedGate[]> {
  const present = new Set<string>();
  if (!gates.always)
    for (const name of new Set([...gates.bins, ...gates.anyBins]))
      if (await facts.hasBinary(name)) present.add(name);
  return judgeKnownGates(gates, { ...facts, hasBinary: (name) => present.has(name) });
}

/** What is known of a machine. */
export type KnownFacts = Omit<MachineFacts, "hasBinary"> & {
  /** Whether commands of the machine would find that binary. */
  readonly hasBinary: (name: string) => boolean;
};

/** `judgeGates` with facts that need not be looked for. */
export function judgeKnownGates(gates: SkillGates, facts: KnownFacts): readonly FailedGate[] {
  const failed: FailedGate[] = [];
  const fail = (gate: GateName, missing: readonly string[]): void => void failed.push({ gate, missing });
  if (gates.os.length > 0 && !gates.os.some((name) => toPlatform(name) === facts.platform))
    fail("os", gates.os);
  if (gates.always) return failed;
  const absent = gates.bins.filter((name) => !facts.hasBinary(name));
  if (absent.length > 0) fail("bins", absent);
  if (gates.anyBins.length > 0 && !gates.anyBins.some((name) => facts.hasBinary(name)))
    fail("anyBins", gates.anyBins);
  const unset = gates.env.filter((name) => !facts.hasVariable(name));
  if (unset.length > 0) fail("env", unset);
  const off = gates.config.filter((setting) => !facts.isEnabled(setting));
  if (off.length > 0) fail("config", off);
  return failed;
}

/** Whether a configuration has `true` at a dotted path; own fields only. */
export function isTrueAt(configuration: unknown, setting: string): boolean {
  let at: unknown = configuration;
  for (const key of setting.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return false;
    at = (at as Readonly<Record<string, unknown>>)[key];
  }
  return at === true;
}

/** Files name systems in several ways; Node has one word for each. */
function toPlatform(name: string): string {
  switch (name.toLowerCase()) {
    case "macos":
    case "mac":
      return "darwin";
    case "windows":
      return "win32";
    default:
      return name.toLowerCase();
  }
}

function mappingOf(value: JsonValue | undefined): { readonly [key: string]: JsonValue } {
  return value !== undefined && isMapping(value) ? value : {};
}

function ownValue(value: JsonValue | undefined, key: string): JsonValue | undefined {
  const mapping = mappingOf(value);
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}
