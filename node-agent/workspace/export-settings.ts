import { Fault } from "../../shared/fault/fault.ts";
import type { Containment } from "../../shared/root/root-handle.ts";
import type { TrustedFolder } from "../../shared/root/trusted-folder.ts";

/** A folder that this machine exports, and what of it may be done. */
export interface ExportSettings {
  readonly name: string;
  /** Absolute. */
  readonly dir: string;
  /** What may be read, by glob. */
  readonly read: readonly string[];
  /** What may be written, by glob; none: nothing. */
  readonly write: readonly string[];
  /** What is neither read nor written, by glob, besides the built-in list; `!GLOB` takes a built-in one out. */
  readonly deny: readonly string[];
  /** Whether what may be written may also be removed. */
  readonly remove: boolean;
  /** Whether what may be written may also be renamed. */
  readonly move: boolean;
  /** Whether folders may be made where may be written. */
  readonly mkdir: boolean;
  /** Whether links that stay inside are followed. */
  readonly followSymlinks: boolean;
  /** Folders outside, absolute, that followed links may lead into, and whether what is in them may be changed. */
  readonly allowSymlinkTargets?: readonly TrustedFolder[] | undefined;
  /** Whether files with several names are served. */
  readonly allowHardLinks: boolean;
  /** How surely it is kept inside; undefined: the surest that this platform has. */
  readonly containment?: Containment | undefined;
  /** What `~` in the globs means: the home of this user, absolute. */
  readonly userHome?: string | undefined;
  /** The largest file that is read or written, in bytes; undefined: any. */
  readonly maxFileBytes: number | undefined;
}

/** An export as its own machine shows it: what was configured. */
export function withoutHome(settings: ExportSettings): Omit<ExportSettings, "userHome"> {
  const { userHome, ...shown } = settings;
  return userHome === undefined ? settings : shown;
}

/** What no export shows unless its settings say so: secrets by their usual names. */
const deniedByDefault: readonly string[] = [
  "**/.ssh/**",
  "**/.gnupg/**",
  "**/*.pem",
  "**/*.key",
  "**/id_*",
  "**/.env*",
  "**/.npmrc",
  "**/.netrc",
  "**/.aws/**",
  "**/.kube/**",
];

/** What no export lets change unless its settings say so. */
const notWrittenByDefault: readonly string[] = ["**/.git/**"];

/** The deny globs in force: the built-in ones but those taken out, then the settings' own. */
export interface DenyLists {
  /** For every operation. */
  readonly all: readonly string[];
  /** For operations that change something, besides those for every operation. */
  readonly changes: readonly string[];
}

/** Resolves `deny` against the built-in lists; `!GLOB` that names no built-in glob is `INVALID_ARGUMENT`. */
export function resolveDeny(deny: readonly string[]): DenyLists {
  const builtIn = new Set([...deniedByDefault, ...notWrittenByDefault]);
  const taken = new Set(deny.filter((entry) => entry.startsWith("!")).map((entry) => entry.slice(1)));
  for (const glob of taken) {
    if (builtIn.has(glob)) continue;
    throw new Fault("INVALID_ARGUMENT", `!${glob} takes out a deny glob that is not built in`, {
      details: { field: "deny" },
      hint: `the built-in ones are ${[...builtIn].join(" ")}`,
    });
  }
  return {
    all: [
      ...deniedByDefault.filter((glob) => !taken.has(glob)),
      ...deny.filter((entry) => !entry.startsWith("!")),
    ],
    changes: notWrittenByDefault.filter((glob) => !taken.has(glob)),
  };
}
