import { digestOf, isDigest } from "../../shared/content/digest.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import type { Log } from "../../shared/log/log.ts";
import type { LiveLink } from "../link/links.ts";
import type { PublishedSkill } from "./read-published.ts";
import type { KeptSkillFiles } from "./resources.ts";

/** Instruction files that are asked for at a time. */
const askedAtOnce = 8;

/**
 * Fetches the instruction files that are not kept yet, so that whoever is shown the list can read what it names, also
 * after an edit or without the node. Of an equal list nothing is fetched. A file that cannot be had is left to the read
 * that wants it.
 */
export async function keepInstructions(
  link: LiveLink,
  skills: readonly PublishedSkill[],
  { content, log }: { readonly content: KeptSkillFiles; readonly log: Log },
): Promise<void> {
  const waiting = skills.filter(({ state, digest }) => state === "ok" && isDigest(digest));
  const fetchNext = async (): Promise<void> => {
    for (let skill = waiting.shift(); skill !== undefined; skill = waiting.shift()) {
      try {
        await keepOne(link, skill, content);
      } catch (error) {
        link.signal.throwIfAborted();
        const { code } = faultFromError(error);
        log.debug("a skill's instructions were not kept", {
          nodeId: link.nodeId,
          folder: skill.folder,
          code,
        });
      }
    }
  };
  await Promise.all(Array.from({ length: askedAtOnce }, fetchNext));
}

async function keepOne(link: LiveLink, skill: PublishedSkill, content: KeptSkillFiles): Promise<void> {
  const { workspace, folder, digest } = skill;
  if (!isDigest(digest)) return;
  const key = { nodeId: link.nodeId, digest };
  using kept = await content.open(key).catch(() => undefined);
  if (kept) return;
  const request = { workspace, folder, path: "", ifMatch: digest };
  const pieces: Buffer[] = [];
  for await (const { part } of link.client(Skills).readFile(request, { signal: link.signal }))
    if (part.case === "chunk") pieces.push(Buffer.from(part.value));
  const bytes = Buffer.concat(pieces);
  if (digestOf(bytes) === digest) await content.keep(key, bytes);
}
