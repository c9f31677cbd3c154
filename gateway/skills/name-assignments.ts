import type { Alias, WorkspaceName } from "../../shared/names/alias.ts";
import { toSkillName } from "../../shared/names/prefixed-name.ts";

/**
 * Who holds which published name. Kept in the store, so that a name means the same skill after restarts and in whatever
 * order nodes come and go.
 */
export interface NameAssignments {
  /**
   * The claimant that holds `name`: `claimant` itself when the name was free, which it then holds for good. A claimant is
   * `<node id>/<workspace>/<skill>`.
   */
  claim(name: string, claimant: string): Promise<string>;
  /** Frees every name of a node that is gone for ever. */
  release(nodeId: string): Promise<void>;
}

/** A skill that wants a name. */
export interface NameClaim {
  readonly alias: Alias;
  readonly nodeId: string;
  readonly workspace: WorkspaceName;
  /** The node's own name of the skill. */
  readonly skill: string;
}

/**
 * The name under which sessions see the skill: `<alias>-<skill>`; with the workspace between when another workspace of
 * the node holds that; ending in a hash when another node does. Undefined when even that is held.
 */
export async function assignName(
  claim: NameClaim,
  assignments: NameAssignments,
): Promise<string | undefined> {
  const claimant = `${claim.nodeId}/${claim.workspace}/${claim.skill}`;
  const parts = { alias: claim.alias, nodeId: claim.nodeId, name: claim.skill };
  const plain = toSkillName(parts);
  const holder = await assignments.claim(plain, claimant);
  if (holder === claimant) return plain;
  const isOwn = holder.startsWith(`${claim.nodeId}/`);
  const others = isOwn
    ? [
        toSkillName({ ...parts, workspace: claim.workspace }),
        toSkillName({ ...parts, workspace: claim.workspace, isTaken: true }),
      ]
    : [
        toSkillName({ ...parts, isTaken: true }),
        toSkillName({ ...parts, workspace: claim.workspace, isTaken: true }),
      ];
  for (const name of others) if ((await assignments.claim(name, claimant)) === claimant) return name;
  return undefined;
}
