import { createHash } from "node:crypto";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { CatalogueSkill } from "./catalogue-skill.ts";

/** Names the form of the hash's input: another form gives other hashes. */
const form = "skills 2";

/**
 * Names a list of skills by what it was made from: owner, place, name, state and instruction digest of each. Equal
 * inputs give the equal hash, in whatever order they come and whenever they are asked.
 */
export function snapshotOf(skills: readonly CatalogueSkill[]): string {
  const rows = skills.map((skill) =>
    JSON.stringify([
      skill.name,
      skill.owner,
      skill.nodeId,
      skill.workspace,
      skill.folder,
      skill.state,
      skill.digest,
      skill.revision,
      skill.description,
      skill.reasons.map((reason) => [reason.code, reason.path, reason.line, reason.message]),
    ]),
  );
  const hash = createHash("sha256").update(form);
  for (const row of rows.toSorted(compareByUtf8)) hash.update("\n").update(row);
  return `sha256:${hash.digest("hex")}`;
}
