// Who may import whom, as data. The arrows are those of the house: down the ladders below, never sideways, never up.
// A new room, package or door is one row here, with a reason in the commit.

type Level = readonly string[];

/** Rooms from the top to the bottom: a room may import every room on a lower level, and none beside it. */
export interface Ladder {
  /** The folder whose rooms these are; `.` among them stands for the files directly in it. */
  readonly folder: string;
  readonly levels: readonly Level[];
}

/** The ladders. Rooms that stand in several ladders of one folder may import what is below them in any. */
export const ladders: readonly Ladder[] = [
  {
    folder: "gateway",
    levels: [
      ["cli"],
      ["."],
      ["config"],
      ["serve"],
      ["sessions", "fleet", "plugin-sdk"],
      ["tools"],
      ["policy", "approvals", "plugins", "skills", "memory", "installs"],
      ["files"],
      ["link"],
      ["pairing", "audit", "cluster"],
      ["store"],
    ],
  },
  {
    folder: "node-agent",
    levels: [
      ["cli"],
      ["."],
      ["config"],
      ["tools", "skills", "memory", "installs"],
      ["workers", "files", "jobs"],
      ["workspace"],
    ],
  },
  { folder: "node-agent", levels: [["cli"], ["."], ["config"], ["link"], ["pairing"]] },
  {
    folder: "shared",
    levels: [
      ["skill-file", "service", "core-tools", "tree"],
      ["rpc", "root", "mcp-stdio", "terminal"],
      ["process", "config", "log", "telemetry", "content", "identity", "watch"],
      ["flow", "names"],
      ["lifetime"],
      ["fault"],
      ["gen"],
    ],
  },
];

/** Whole folders that the files of another may import besides their own ladder. */
export const folders: Readonly<Record<string, readonly string[]>> = {
  gateway: ["shared"],
  "node-agent": ["shared"],
  shared: [],
};

/** The rooms that the front door may load. */
export const frontDoor: readonly string[] = ["gateway/cli", "node-agent/cli", "shared"];

/**
 * Which rooms may import an npm package; a folder stands for all its rooms. A row whose rooms exist and do without the
 * package is stale. `test/` is not held.
 */
export const packages: Readonly<Record<string, readonly string[]>> = {
  /** Messages are what both programs speak. */
  "@bufbuild/protobuf": ["gateway", "node-agent", "shared/gen", "shared/rpc", "shared/tree"],
  "@grpc/grpc-js": ["shared/rpc"],
  "@modelcontextprotocol/node": ["gateway/serve"],
  "@modelcontextprotocol/server": ["gateway/serve"],
  "@peculiar/x509": ["shared/identity", "gateway/pairing"],
  "cli-progress": ["shared/terminal"],
  "cli-table3": ["shared/terminal"],
  "env-paths": ["shared/config"],
  ajv: ["shared/core-tools"],
  chokidar: ["shared/watch"],
  commander: ["shared/terminal"],
  kysely: ["gateway/store"],
  picomatch: ["shared/names"],
  pino: ["shared/log"],
  yaml: ["shared/skill-file", "shared/config", "gateway/policy"],
  zod: ["shared/config", "gateway/config", "gateway/policy", "gateway/serve", "node-agent/config"],
};

/** What else has a door of its own: the rooms that may use it. */
export const doors: Readonly<Record<"fs" | "env" | "timers" | "child processes", readonly string[]>> = {
  /** `node:fs` and `node:fs/promises`. */
  fs: [
    "shared/identity",
    "shared/root",
    "shared/rpc",
    "shared/config",
    "shared/process",
    "shared/service",
    "gateway/cli",
    "gateway/serve",
    "gateway/files",
    "gateway/skills",
    "gateway/pairing",
    "gateway/audit",
    "gateway/policy",
    "gateway/memory",
    "gateway/store",
    "node-agent/cli",
    "node-agent/workspace",
    "node-agent/pairing",
    /** Prefixes of what was installed, which lie in the node's own state and are filled by other programs. */
    "node-agent/installs",
    /** The ledger: SQLite writes its log, and this room brings it to the disk. */
    "node-agent/link",
    "node-agent/jobs",
  ],
  /** `process.env`. */
  env: ["shared/config", "gateway/cli", "node-agent/cli"],
  /** `setTimeout`, `setInterval` and `node:timers`; in tests too, but for faults and programs under test. */
  timers: ["shared/lifetime", "test/support/fault-proxy", "test/fixtures/", "test/bench/"],
  /** `node:child_process`. */
  "child processes": ["shared/process", "shared/mcp-stdio", "node-agent/workers", "node-agent/jobs"],
};

/** Words that say nothing about what a file holds. */
export const emptyWords: readonly string[] = [
  "common",
  "data",
  "handler",
  "helper",
  "helpers",
  "impl",
  "info",
  "manager",
  "misc",
  "util",
  "utils",
];
