import { realpathSync } from "node:fs";
import { posix } from "node:path";
import type { TrustedFolder } from "../trusted-folder.ts";

/** A folder outside the root that a link was found to lead into. */
export interface TrustedPlace {
  /** Absolute, no link in it. */
  readonly realPath: string;
  /** The names below it that the link goes on with. */
  readonly rest: readonly string[];
  readonly write: boolean;
}

/** A link that was met. */
export interface LinkText {
  /** The absolute path of the link's own folder. */
  readonly from: string;
  /** What the link says. */
  readonly target: string;
  /** The absolute path of the folder that nothing leads out of now. */
  readonly base: string;
}

/**
 * Which of the trusted folders a link leads into, by its text alone: the deepest that fits. Undefined where it leads into
 * none, and where it stays beneath its base.
 */
export function findTrusted(trusted: readonly TrustedFolder[], link: LinkText): TrustedPlace | undefined {
  if (trusted.length === 0) return undefined;
  const target = posix.resolve(link.from, link.target);
  if (target === link.base || target.startsWith(`${link.base}/`)) return undefined;
  let found: TrustedPlace | undefined;
  for (const { path, write } of trusted) {
    const realPath = realPathOf(path);
    for (const spelling of new Set([path, realPath])) {
      if (target !== spelling && !target.startsWith(`${spelling}/`)) continue;
      if (found && realPath.length <= found.realPath.length) continue;
      const rest = target
        .slice(spelling.length)
        .split("/")
        .filter((name) => name !== "");
      found = { realPath, rest, write };
    }
  }
  return found;
}

/** One that is not there now is none that could be entered. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
