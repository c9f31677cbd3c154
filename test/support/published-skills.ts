import type { MessageInitShape } from "@bufbuild/protobuf";
import type { LiveLink } from "../../gateway/link/links.ts";
import {
  createSkillCatalogue,
  type OwnSkills,
  type SkillCatalogue,
  type SkillCatalogueOptions,
} from "../../gateway/skills/catalogue.ts";
import type { NameAssignments } from "../../gateway/skills/name-assignments.ts";
import type { GatewaySkill } from "../../gateway/skills/root-reader.ts";
import { digestOf } from "../../shared/content/digest.ts";
import { type PublishedSkillSchema, Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { silentLog } from "../../shared/log/log.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import { parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import { serve, type ServiceImplementation } from "../../shared/rpc/service.ts";
import { createDirectLinks, type DirectLinks } from "./direct-link.ts";
import { ManualClock } from "./manual-clock.ts";

/** A skill as a node would publish it. */
export type Published = Exclude<MessageInitShape<typeof PublishedSkillSchema>, { $typeName: string }>;

/** What a node publishes: its skills, and whatever else the answer holds. */
export function published(name: string, more: Partial<Published> = {}): Published {
  const folder = more.folder ?? `skills/${name}`;
  const skill: Published = {
    workspace: "app",
    folder,
    name,
    description: `Does ${name}.`,
    state: "ok",
    digest: digestOf(`${more.workspace ?? "app"}/${folder}`),
    sizeBytes: 10n,
    frontMatterJson: "{}",
  };
  return Object.assign(skill, more);
}

/** Assignments that live as long as the test. */
export function createAssignments(): NameAssignments & { readonly held: Map<string, string> } {
  const held = new Map<string, string>();
  return {
    held,
    claim: async (name, claimant) => {
      const holder = held.get(name) ?? claimant;
      held.set(name, holder);
      return holder;
    },
    release: async (nodeId) => {
      for (const [name, holder] of held) if (holder.startsWith(`${nodeId}/`)) held.delete(name);
    },
  };
}

/** A catalogue with nodes that publish what a test says. */
export interface TestCatalogue {
  readonly catalogue: SkillCatalogue;
  readonly links: DirectLinks;
  /** Links the node `id` (its alias too unless one is given) and reads what it publishes. */
  readonly publish: (
    node: { readonly id: string; readonly alias?: string },
    skills: readonly Published[],
    /** How it serves their files. */
    readFile?: ServiceImplementation<typeof Skills>["readFile"],
  ) => Promise<LiveLink>;
  /** The node goes away. */
  readonly withdraw: (id: string, reason?: "node_offline" | "revoked") => void;
}

/** Makes a catalogue over these assignments. */
export function createTestCatalogue(
  assignments: NameAssignments = createAssignments(),
  more: Pick<SkillCatalogueOptions, "own" | "publishes" | "prefixesOnCollision"> = {},
): TestCatalogue {
  const links = createDirectLinks();
  const aliases = new Map<string, string>();
  const catalogue = createSkillCatalogue({
    aliasOf: async (nodeId) => parseAlias(aliases.get(nodeId) ?? nodeId),
    assignments,
    ...more,
    clock: new ManualClock(),
    log: silentLog,
  });
  return {
    catalogue,
    links,
    publish: async (node, skills, readFile) => {
      aliases.set(node.id, node.alias ?? node.id);
      const service = serve(Skills, {
        ...(readFile ? { readFile } : {}),
        listPublished: async function* () {
          yield { digest: digestOf(JSON.stringify(skills.map(({ folder }) => folder ?? ""))) };
          yield { skills: [...skills] };
        },
      });
      const link = links.connect({ nodeId: node.id, services: [service] });
      await catalogue.reader.read(link, { epoch: 1n, digest: "" });
      return link;
    },
    withdraw: (id, reason = "node_offline") => {
      links.disconnect(id);
      catalogue.reader.withdraw(id, reason);
    },
  };
}

/** The gateway's own skills by these names, each managed and without a gate; set `skills` to change them. */
export function ownSkills(names: readonly string[], more: Partial<GatewaySkill> = {}): OwnSkills {
  const skills = names.map((name): GatewaySkill => ({
    source: "managed",
    agent: undefined,
    root: "/managed",
    folder: parseWorkspacePath(name),
    name,
    description: `Does ${name}.`,
    state: "ok",
    reasons: [],
    digest: digestOf(name),
    revision: digestOf(`all of ${name}`),
    frontMatterJson: "{}",
    gates: undefined,
    ...more,
  }));
  return { skills: () => skills, judge: () => [], follow: () => undefined, forget: () => undefined };
}

/** The names of a list, with the state of those that are not eligible. */
export function namesOf(list: ReturnType<SkillCatalogue["list"]>): readonly string[] {
  return list.skills.map(({ name, state }) => (state === "eligible" ? name : `${name} (${state})`));
}
