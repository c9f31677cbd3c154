import { Fault } from "../../fault/fault.ts";
import type { WorkspacePath } from "../../names/workspace-path.ts";
import { pathEscapes, rootFault } from "../refusals.ts";
import { type Descriptor, openEntry, readLink } from "./descriptor.ts";
import { findPlace, type Start } from "./place.ts";

/** A link that was looked at: its text and what it leads to beneath the top, or why it may not be shown. */
export type LinkVerdict =
  | { readonly target: string; readonly leadsTo: WorkspacePath }
  | { readonly fault: Fault };

/** Where a link is judged: it and its target must both lie beneath `top`. */
export interface LinkPlace {
  readonly top: Descriptor;
  /** The link's path beneath `top`. */
  readonly below: WorkspacePath;
  readonly folder: Descriptor;
  readonly name: string;
  /** The link's path as faults name it. */
  readonly path: string;
  /** Folders outside through which the link itself may be reached; none by default. */
  readonly trusted?: Start["trusted"];
}

/**
 * Whether the link's target exists and stays beneath the top, for listings and trees: they show a link and never enter
 * it. An absolute text leads out wherever the tree comes to stand, so it is refused too.
 */
export function judgeLink(link: LinkPlace): LinkVerdict {
  try {
    const target = readLink(link.folder, link.name);
    if (target === undefined || target.startsWith("/")) return { fault: pathEscapes(link.path) };
    const start = { top: link.top, realPath: "/nowhere/", followSymlinks: true, trusted: link.trusted ?? [] };
    using place = findPlace(start, link.below, "follow");
    if (place.name !== undefined) openEntry(place.folder, place.name)[Symbol.dispose]();
    return { target, leadsTo: place.canonicalPath };
  } catch (error) {
    const known = rootFault(error, link.path);
    if (known instanceof Fault) return { fault: nameLink(known, link.path) };
    throw known;
  }
}

/** The fault names what was met on the way; what is reported is the link. */
function nameLink(fault: Fault, path: string): Fault {
  if (fault.code === "PATH_ESCAPES") return pathEscapes(path);
  if (fault.code === "NOT_FOUND") {
    return new Fault("NOT_FOUND", `the link ${path} leads to nothing`, {
      details: { path, reason: "dangling" },
    });
  }
  return new Fault(fault.code, fault.message, { details: { ...fault.details, path } });
}
