import { Fault } from "../../shared/fault/fault.ts";
import {
  appendPath,
  isBeneath,
  relativePath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import type { FoundThing } from "../../shared/root/look.ts";
import type { FileOperation } from "./file-policy.ts";

/** What somebody was shown and allowed: an operation on `path` is done on exactly this or not at all. */
export interface Pin {
  readonly path: WorkspacePath;
  readonly canonicalPath: string;
  /** As `identityOf` named it. */
  readonly identity: string;
}

/** A name for what was found that no other thing of this machine has. */
export function identityOf({ device, inode, bornNs, isThere }: FoundThing): string {
  return `${isThere ? "at" : "in"} ${device}:${inode}:${bornNs}`;
}

/** Holds what is done to what was allowed. */
export interface PinCheck {
  /** Fails with `PATH_CHANGED` when an operation on `path` would act on anything else. */
  require(operation: FileOperation, path: WorkspacePath, at: PinnedPlace): void;
}

/** Where a path led to. */
export interface PinnedPlace {
  readonly canonicalPath: WorkspacePath;
  readonly found: FoundThing | undefined;
}

/** A check of `pins`; a path below a pinned one must lead below what the pinned one leads to. */
export function createPinCheck(pins: readonly Pin[]): PinCheck {
  // A folder that was made under its pin is there from then on, as something that nobody could have been shown.
  const made = new Set<Pin>();
  return {
    require: (operation, path, { canonicalPath, found }) => {
      for (const pin of pins) {
        if (!isBeneath(path, pin.path)) continue;
        const below = relativePath(path, pin.path);
        const isSamePath = canonicalPath === appendPath(pin.canonicalPath as WorkspacePath, below);
        const isPinned = path === pin.path && !made.has(pin);
        const isSame = !isPinned || (found !== undefined && identityOf(found) === pin.identity);
        if (!isSamePath || !isSame) throw changedSince(path);
        if (isPinned && operation === "mkdir") made.add(pin);
      }
    },
  };
}

function changedSince(path: WorkspacePath): Fault {
  return new Fault("PATH_CHANGED", `${path === "" ? "the workspace's root" : path} is not what was allowed`, {
    details: { path },
    hint: "repeat the command: what stands there now is shown and asked for",
  });
}
