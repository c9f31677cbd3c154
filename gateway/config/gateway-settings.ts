import path from "node:path";
import { z } from "zod";
import { packageRoot } from "../../shared/config/package-root.ts";
import { type ConfigFile, readConfig } from "../../shared/config/read-config.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { isLoopbackHost, parseAddress, parseListenAddress } from "../../shared/identity/address.ts";
import type { EmbeddingSource } from "../memory/embedding/embedding-settings.ts";
import type { MemorySettings } from "../memory/memory-settings.ts";
import type { PublishSettings, SkillSettings } from "../skills/skill-settings.ts";
import {
  type EmbeddingsConfig,
  embeddingsSchema,
  type MemoryConfig,
  memorySchema,
  resolveEmbeddings,
  resolveMemory,
} from "./memory-config.ts";

/** What bounds an agent's sessions besides the node's profile. */
export interface AgentSettings {
  readonly profile?: "read" | "work" | "full" | undefined;
  /** Tools that may be offered, by pattern; absent: all. */
  readonly allow?: readonly string[] | undefined;
  /** Tools that never are, by pattern. */
  readonly deny?: readonly string[] | undefined;
  /** The workspace of its sessions when none is named: `NODE:/NAME`. */
  readonly workspace?: string | undefined;
  /** The skills that it may use, by the names its sessions see; absent: those of `skills.use`. */
  readonly skills?: readonly string[] | undefined;
}

/** Limits that an administrator may set; each with its default. */
export interface GatewayLimits {
  /** How often a node is heard of, in milliseconds. */
  readonly heartbeatMs: number;
  /** After how much silence a link is dead, in milliseconds; more than the heartbeat. */
  readonly deadAfterMs: number;
  /** New links a second. */
  readonly admissionPerSecond: number;
  /** Bytes that the calls of one link may have in flight, each way. */
  readonly linkBytesInFlight: number;
  /** Bytes that the calls of all links may have in flight, each way. */
  readonly gatewayBytesInFlight: number;
  /** How long a call waits for a person, in milliseconds. */
  readonly approvalWaitMs: number;
  /** Wrong secrets a minute from one address. */
  readonly wrongSecretsPerMinute: number;
  /** Machines that may wait to be admitted. */
  readonly pendingRequests: number;
  /** Machines that may wait to be admitted from one address. */
  readonly pendingRequestsPerAddress: number;
  /** How long a machine waits to be admitted, in milliseconds. */
  readonly pendingRequestMs: number;
  /** How long a node's certificate lives, in milliseconds; it is renewed at two thirds. */
  readonly certificateMs: number;
  /** How long after its end a certificate may still be renewed, in milliseconds. */
  readonly lapsedRenewalMs: number;
  /** Size at which a file of the audit record is closed, in bytes. */
  readonly auditFileBytes: number;
  /** How long a file of the audit record is kept after its last record, in milliseconds. */
  readonly auditKeepMs: number;
}

/** The gateway's configuration with every value in place. */
export interface GatewaySettings {
  /** State of the gateway: `<home>/gateway`. */
  readonly dir: string;
  /** Where nodes and remote administrators connect: `HOST:PORT`. */
  readonly listen: string;
  /** Where MCP and health are served: `HOST:PORT`. */
  readonly http: string;
  /** What join codes carry; empty: the address it listens on. */
  readonly advertise: readonly string[];
  /** The policy file, absolute; undefined: built-in policy only. */
  readonly policyFile: string;
  /** Whether the policy file was named, so that it must exist. */
  readonly policyFileNamed: boolean;
  readonly agents: Readonly<Record<string, AgentSettings>>;
  readonly contentStore: ContentStoreSettings;
  readonly bootstrap: BootstrapSettings;
  readonly publish: PublishSettings;
  readonly skills: SkillSettings;
  /** Where vectors for the search of memory come from; undefined: searches are by keyword. */
  readonly embeddings: EmbeddingSource | undefined;
  readonly memory: MemorySettings;
  readonly limits: GatewayLimits;
}

/** Which documents agents are begun with, besides those in the root of a workspace. */
export interface BootstrapSettings {
  /** Patterns of paths in a workspace. */
  readonly patterns: readonly string[];
}

/** Where content that nodes have supplied is kept. */
export interface ContentStoreSettings {
  /** The folder, absolute; `content` in the gateway's folder by default. */
  readonly dir: string;
  /** Bytes that are kept; beyond that goes what was used least recently. */
  readonly maxBytes: number;
}

/** What was said on the command line; wins over the file. */
export interface GatewayOptions {
  readonly listen?: string | undefined;
  readonly http?: string | undefined;
  readonly advertise?: readonly string[] | undefined;
}

/** Defaults of every value that has one. */
export const gatewayDefaults: {
  readonly listen: string;
  readonly http: string;
  readonly contentStore: Pick<ContentStoreSettings, "maxBytes">;
  readonly limits: GatewayLimits;
} = {
  listen: "127.0.0.1:7443",
  http: "127.0.0.1:7480",
  contentStore: { maxBytes: 1_073_741_824 },
  limits: {
    heartbeatMs: 10_000,
    deadAfterMs: 25_000,
    linkBytesInFlight: 67_108_864,
    gatewayBytesInFlight: 1_073_741_824,
    admissionPerSecond: 100,
    approvalWaitMs: 120_000,
    wrongSecretsPerMinute: 100,
    pendingRequests: 1_000,
    pendingRequestsPerAddress: 20,
    pendingRequestMs: 86_400_000,
    certificateMs: 7 * 86_400_000,
    lapsedRenewalMs: 90 * 86_400_000,
    auditFileBytes: 67_108_864,
    auditKeepMs: 34_560_000_000,
  },
};

const whole = (min: number, max: number): z.ZodOptional<z.ZodNumber> =>
  z.number().int().min(min).max(max).optional();
const patterns = z.array(z.string().min(1).max(200)).max(1_000).optional();

/** The shape of `gateway/config.yaml`; every key is optional. */
export const gatewayConfigSchema: z.ZodType<GatewayConfig> = z.strictObject({
  listen: z.string().optional(),
  http: z.string().optional(),
  advertise: z.array(z.string()).max(8).optional(),
  policyFile: z.string().min(1).optional(),
  agents: z
    .record(
      z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, "a name is 1 to 32 of a to z, 0 to 9 and hyphens"),
      z.strictObject({
        profile: z.enum(["read", "work", "full"]).optional(),
        allow: patterns,
        deny: patterns,
        workspace: z.string().optional(),
        skills: patterns,
      }),
    )
    .optional(),
  publish: z
    .strictObject({ skills: z.boolean().optional(), prefix: z.enum(["always", "on-collision"]).optional() })
    .optional(),
  skills: z
    .strictObject({
      use: patterns,
      disabled: patterns,
      load: z
        .strictObject({
          watch: z.boolean().optional(),
          bundledDir: z.string().min(1).optional(),
          extraDirs: patterns,
          allowSymlinkTargets: patterns,
        })
        .optional(),
    })
    .optional(),
  bootstrap: z.strictObject({ patterns: patterns }).optional(),
  contentStore: z
    .strictObject({ dir: z.string().min(1).optional(), maxBytes: whole(0, 1_099_511_627_776) })
    .optional(),
  embeddings: embeddingsSchema.optional(),
  memory: memorySchema.optional(),
  limits: z
    .strictObject({
      heartbeatMs: whole(100, 600_000),
      deadAfterMs: whole(200, 3_600_000),
      linkBytesInFlight: whole(8_388_608, 1_073_741_824),
      gatewayBytesInFlight: whole(67_108_864, 68_719_476_736),
      admissionPerSecond: whole(1, 10_000),
      approvalWaitMs: whole(1_000, 600_000),
      wrongSecretsPerMinute: whole(1, 10_000),
      pendingRequests: whole(1, 10_000),
      pendingRequestsPerAddress: whole(1, 10_000),
      pendingRequestMs: whole(1_000, 2_592_000_000),
      certificateMs: whole(5_000, 90 * 86_400_000),
      lapsedRenewalMs: whole(0, 3_650 * 86_400_000),
      auditFileBytes: whole(1_024, 1_073_741_824),
      auditKeepMs: whole(60_000, 315_360_000_000),
    })
    .optional(),
});

/** `gateway/config.yaml` as it is written. */
export interface GatewayConfig {
  readonly listen?: string | undefined;
  readonly http?: string | undefined;
  readonly advertise?: readonly string[] | undefined;
  readonly policyFile?: string | undefined;
  readonly agents?: Readonly<Record<string, AgentSettings>> | undefined;
  readonly publish?: { readonly [K in keyof PublishSettings]?: PublishSettings[K] | undefined } | undefined;
  readonly skills?:
    | {
        readonly use?: readonly string[] | undefined;
        readonly disabled?: readonly string[] | undefined;
        readonly load?:
          | {
              readonly watch?: boolean | undefined;
              readonly bundledDir?: string | undefined;
              readonly extraDirs?: readonly string[] | undefined;
              readonly allowSymlinkTargets?: readonly string[] | undefined;
            }
          | undefined;
      }
    | undefined;
  readonly bootstrap?: { readonly patterns?: readonly string[] | undefined } | undefined;
  readonly contentStore?:
    | { readonly dir?: string | undefined; readonly maxBytes?: number | undefined }
    | undefined;
  readonly embeddings?: EmbeddingsConfig | undefined;
  readonly memory?: MemoryConfig | undefined;
  readonly limits?: { readonly [K in keyof GatewayLimits]?: number | undefined } | undefined;
}

/** Reads the configuration: `<dir>/config.yaml`, or the file that is named. */
export function readGatewayConfig(dir: string, file?: string): Promise<ConfigFile<GatewayConfig>> {
  return readConfig(file ?? path.join(dir, "config.yaml"), gatewayConfigSchema);
}

/** Settings from what was said and what is written; `INVALID_ARGUMENT` names the field, its value and the remedy. */
export function resolveGatewaySettings(
  dir: string,
  config: ConfigFile<GatewayConfig>,
  options: GatewayOptions = {},
): GatewaySettings {
  const { value } = config;
  const listen = options.listen ?? value.listen ?? gatewayDefaults.listen;
  const http = options.http ?? value.http ?? gatewayDefaults.http;
  const advertise = options.advertise?.length ? options.advertise : (value.advertise ?? []);
  parseListenAddress(listen, "listen");
  if (!isLoopbackHost(parseListenAddress(http, "http").host)) throw plainHttpFault(http);
  for (const address of advertise) parseAddress(address, "advertise");
  const limits = { ...gatewayDefaults.limits, ...withoutUndefined(value.limits ?? {}) };
  if (limits.deadAfterMs <= limits.heartbeatMs) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `limits.deadAfterMs is ${limits.deadAfterMs}; it must be more than limits.heartbeatMs, ${limits.heartbeatMs}`,
      { details: { field: "limits.deadAfterMs", actual: limits.deadAfterMs, limit: limits.heartbeatMs } },
    );
  }
  const policyFile = path.resolve(path.dirname(config.file), value.policyFile ?? "policy.yaml");
  return {
    dir,
    listen,
    http,
    advertise,
    policyFile: value.policyFile === undefined ? path.join(dir, "policy.yaml") : policyFile,
    policyFileNamed: value.policyFile !== undefined,
    agents: value.agents ?? {},
    contentStore: {
      dir: path.resolve(path.dirname(config.file), value.contentStore?.dir ?? path.join(dir, "content")),
      maxBytes: value.contentStore?.maxBytes ?? gatewayDefaults.contentStore.maxBytes,
    },
    bootstrap: { patterns: value.bootstrap?.patterns ?? [] },
    publish: { skills: value.publish?.skills ?? true, prefix: value.publish?.prefix ?? "always" },
    skills: resolveSkills(config),
    embeddings: resolveEmbeddings(value.embeddings, path.dirname(config.file)),
    memory: resolveMemory(value.memory),
    limits,
  };
}

function resolveSkills({ value: { skills }, file }: ConfigFile<GatewayConfig>): SkillSettings {
  const near = (dirs: readonly string[] | undefined): readonly string[] =>
    (dirs ?? []).map((dir) => path.resolve(path.dirname(file), dir));
  return {
    watches: skills?.load?.watch ?? true,
    bundledDir: near([skills?.load?.bundledDir ?? path.join(packageRoot(), "skills")])[0] ?? "",
    extraDirs: near(skills?.load?.extraDirs),
    allowSymlinkTargets: near(skills?.load?.allowSymlinkTargets),
    use: skills?.use,
    disabled: skills?.disabled ?? [],
  };
}

function plainHttpFault(http: string): Fault {
  return new Fault("INVALID_ARGUMENT", `--http is ${http}; plain HTTP is served on loopback only`, {
    hint: "use --http 127.0.0.1:7480 with a proxy in front that speaks TLS",
    details: { field: "http", actual: http },
  });
}

function withoutUndefined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
