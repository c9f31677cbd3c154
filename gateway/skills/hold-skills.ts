import { isDigest } from "../../shared/content/digest.ts";
import type { ContentKey, ContentStore } from "../files/content-store.ts";
import type { SkillCatalogue } from "./catalogue.ts";

/** What `holdSkills` stands on. */
export interface HoldSkillsOptions {
  readonly catalogue: Pick<SkillCatalogue, "list" | "changes">;
  readonly content: Pick<ContentStore, "refer">;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Holds the instruction files of every skill that some list shows, also of nodes that are away, until the signal ends it. */
export async function holdSkills({ catalogue, content, signal }: HoldSkillsOptions): Promise<void> {
  const hold = (): void => content.refer("skills", catalogue.list().skills.flatMap(toKey));
  const changes = catalogue.changes({ signal });
  hold();
  for await (const _ of changes) hold();
}

function toKey({ nodeId, digest }: { readonly nodeId: string; readonly digest: string }): ContentKey[] {
  return nodeId !== "" && isDigest(digest) ? [{ nodeId, digest }] : [];
}
