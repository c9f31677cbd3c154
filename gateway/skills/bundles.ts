import { isDigest } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { type BundleFile, bundleLimits, tooManyFiles } from "../../shared/skill-file/bundle.ts";
import { revisionOfFiles } from "../../shared/skill-file/known-skills.ts";
import type { Links } from "../link/links.ts";
import type { CatalogueSkill } from "./catalogue-skill.ts";
import type { RootReader } from "./root-reader.ts";

/** The files of one revision of a skill, in order of their paths, and what of it cannot be served. */
export interface Bundle {
  readonly files: readonly BundleFile[];
  readonly problems: readonly { readonly path: string; readonly fault: Fault }[];
}

/** The files of skills as their revisions name them. */
export interface Bundles {
  /**
   * The files of the revision that the list shows: as they were told before, or as the node tells them now. `CONFLICT`
   * with both revisions when the node has another by now; fails as a call to the node does.
   */
  find(skill: CatalogueSkill, signal?: AbortSignal): Promise<Bundle>;
}

/** Most bundles whose files are remembered; of each some kilobytes. */
const maxKnown = 500;
/** How long a look at the own disk may take without a caller who ends it, in milliseconds. */
const lookMs = 60_000;

/** Bundles that are asked of their nodes, once for each revision. */
export function createBundles(
  links: Pick<Links, "get">,
  readerOf: (root: string) => RootReader | undefined = () => undefined,
): Bundles {
  const known = new Map<string, Bundle>();
  return {
    find: async (skill, signal) => {
      const key = JSON.stringify([skill.nodeId, skill.root, skill.workspace, skill.folder, skill.revision]);
      const kept = known.get(key);
      if (kept) return kept;
      const bundle =
        skill.nodeId === "" ? await look(readerOf, skill, signal) : await ask(links, skill, signal);
      if (skill.revision === "") return bundle;
      requireRevision(skill, revisionOfFiles(bundle));
      const [oldest] = known.keys();
      if (known.size >= maxKnown && oldest !== undefined) known.delete(oldest);
      known.set(key, bundle);
      return bundle;
    },
  };
}

async function look(
  readerOf: (root: string) => RootReader | undefined,
  skill: CatalogueSkill,
  signal: AbortSignal | undefined,
): Promise<Bundle> {
  const reader = requireReader(readerOf, skill);
  return await reader.list(skill.folder as WorkspacePath, signal ?? AbortSignal.timeout(lookMs));
}

/** What reads a skill of the gateway's own disk; `NOT_FOUND` when its root is gone. */
export function requireReader(
  readerOf: (root: string) => RootReader | undefined,
  skill: CatalogueSkill,
): RootReader {
  const reader = readerOf(skill.root);
  if (reader) return reader;
  throw new Fault("NOT_FOUND", `the folder that ${skill.name} was found in is gone`, {
    hint: "list the skills again",
  });
}

async function ask(
  links: Pick<Links, "get">,
  { nodeId, workspace, folder }: CatalogueSkill,
  signal: AbortSignal | undefined,
): Promise<Bundle> {
  const client = links.get(nodeId).client(Skills);
  const answer = await client.listFiles({ workspace, folder }, signal ? { signal } : {});
  if (answer.fault) throw fromWireFault(answer.fault);
  if (answer.files.length > bundleLimits.files) throw tooManyFiles(bundleLimits, answer.files.length);
  const files = answer.files.flatMap(({ path, sizeBytes, digest, mode }): BundleFile[] =>
    isDigest(digest)
      ? [{ path, sizeBytes: Number(sizeBytes), digest, isExecutable: (mode & 0o100) !== 0 }]
      : [],
  );
  return {
    files: files.toSorted((a, b) => compareByUtf8(a.path, b.path)),
    problems: answer.problems.map(({ path, fault }) => ({
      path,
      fault: fault ? fromWireFault(fault) : new Fault("INTERNAL", "the node gave no reason"),
    })),
  };
}

function requireRevision(skill: CatalogueSkill, actual: string): void {
  if (actual === skill.revision) return;
  throw new Fault("CONFLICT", `the files of ${skill.name} were changed since the list of skills was made`, {
    details: { expected: skill.revision, actual },
    hint: "list the skills again",
  });
}
