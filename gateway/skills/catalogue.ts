import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { type Clock, systemClock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import type { Alias } from "../../shared/names/alias.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { FailedGate } from "../../shared/skill-file/gates.ts";
import type { LiveLink, PublicationReader } from "../link/links.ts";
import { choose, type SkillChoice } from "./agent-list.ts";
import type { BuildReason, CatalogueSkill, SkillList } from "./catalogue-skill.ts";
import { type GatewayListOptions, listGatewaySkills } from "./list-gateway.ts";
import { assignName, type NameAssignments } from "./name-assignments.ts";
import { isVisible, type NamedSkill, type NodeSkills, toListed } from "./node-skills.ts";
import { compareByRoot, type PublishedSkill, readPublished } from "./read-published.ts";
import type { GatewaySkill } from "./root-reader.ts";
import { snapshotOf } from "./snapshot.ts";

/** What `createSkillCatalogue` takes. */
export interface SkillCatalogueOptions {
  /** The alias of a node, or undefined for one that is not known or revoked. */
  readonly aliasOf: (nodeId: string) => Promise<Alias | undefined>;
  readonly assignments: NameAssignments;
  /** Keeps what the list will name before it is shown; by default nothing is. */
  readonly keep?: (link: LiveLink, published: readonly PublishedSkill[]) => Promise<void>;
  /** The gateway's own skills; none by default. */
  readonly own?: OwnSkills;
  /** Whether nodes' skills are shown at all; they are by default. */
  readonly publishes?: boolean;
  /** Whether a node's skill has its plain name while nobody else claims it; it never has by default. */
  readonly prefixesOnCollision?: boolean;
  readonly clock?: Clock;
  readonly log: Log;
}

/** The gateway's own skills, as a catalogue takes them. */
export interface OwnSkills {
  /** In order of precedence. */
  skills(): readonly GatewaySkill[];
  /** What does not hold where the node's commands run, or the gateway's own; undefined while that is not known. */
  judge(skill: GatewaySkill, nodeId: string | undefined): readonly FailedGate[] | undefined;
  /** A node that is there again. */
  follow(link: LiveLink): void;
  /** A node that is gone for good. */
  forget(nodeId: string): void;
}

/** What a session is bound to and may use. */
export interface SkillView {
  /** The workspace whose skills have plain names in this session. */
  readonly bound?: { readonly nodeId: string; readonly workspace: string };
  /** Whether policy admits the node to this session; every node by default. */
  readonly mayUse?: (nodeId: string) => boolean;
  /** Of the session. */
  readonly agent?: string;
  /** Which skills its agent may use; all by default. */
  readonly choice?: SkillChoice;
}

/** Every skill that nodes publish. Made from their publications, and changed with them in one step each. */
export interface SkillCatalogue {
  /** For the links: reads a node's skills, and withdraws them. */
  readonly reader: PublicationReader;
  /** Everything under its prefixed name; what is broken, shadowed, skipped or offline with the reason. */
  list(): SkillList;
  /** The skills of a session: eligible ones and, of the workspace it is bound to, those that are not, with the reason. */
  view(view: SkillView): SkillList;
  /** An item after each change; a slow reader gets one for several. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<{ readonly nodeId: string }>;
  /** The node has another alias now: its skills are named anew. */
  renamed(nodeId: string): Promise<void>;
  /** The gateway's own skills have changed, or what is known of the machines that they are judged by. */
  ownChanged(): void;
}

/** A catalogue without any skill. */
export function createSkillCatalogue(options: SkillCatalogueOptions): SkillCatalogue {
  return new Catalogue(options);
}

/** A list as it was made for one state of the catalogue. */
interface View {
  readonly list: SkillList;
  readonly state: number;
}

/** Most lists that are kept: one for each workspace that sessions are bound to, times what policy admits. */
const maxViews = 1000;

class Catalogue implements SkillCatalogue {
  readonly reader: PublicationReader = {
    kind: PublicationKind.SKILLS,
    read: (link) => this.#read(link),
    withdraw: (nodeId, reason) => this.#withdraw(nodeId, reason),
  };
  readonly #options: SkillCatalogueOptions;
  readonly #clock: Clock;
  readonly #nodes = new Map<string, NodeSkills>();
  readonly #changes = createBroadcast<{ readonly nodeId: string }>({
    limit: 1,
    keyOf: (change) => change.nodeId,
    onOverflow: () => ({ nodeId: "" }),
  });
  readonly #views = new Map<string, View>();
  /** Rises with each change; a view of an older state is made anew when it is asked for. */
  #state = 0;
  #reason: BuildReason = "first_use";

  constructor(options: SkillCatalogueOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  list(): SkillList {
    return this.#remember("", () => {
      const nodes = this.#published();
      const own = this.#own({ agent: undefined, nodeId: undefined, machine: "gateway", taken: new Map() });
      const plain = this.#plainNames(nodes, own);
      const remote = nodes.flatMap((node) => node.skills.map((skill) => toListed(skill, node, { plain })));
      return { skills: [...own, ...remote], staleSinceMs: undefined };
    });
  }

  view(view: SkillView): SkillList {
    const admitted = this.#published().filter((node) => view.mayUse?.(node.nodeId) ?? true);
    const nodes = admitted.map((node) => node.nodeId);
    const key = JSON.stringify([view.bound?.nodeId, view.bound?.workspace, nodes, view.agent, view.choice]);
    return this.#remember(
      key,
      () => {
        const bound = admitted.find((node) => node.nodeId === view.bound?.nodeId);
        const mine = admitted.flatMap((node) =>
          node.skills
            .filter((skill) => isIn(view, { node, skill }))
            .map((skill) => toListed(skill, node, { isBound: true })),
        );
        const taken = new Map(
          mine.filter(({ location }) => location !== "").map((skill) => [skill.name, shownPlace(skill)]),
        );
        const nodeId = view.bound?.nodeId;
        const own = this.#own({ agent: view.agent, nodeId, machine: bound?.alias ?? "gateway", taken });
        const plain = this.#plainNames(admitted, [...own, ...mine]);
        const held = new Set(
          [...mine, ...own].filter(({ location }) => location !== "").map(({ name }) => name),
        );
        const others = admitted.flatMap((node) =>
          node.skills
            .filter((skill) => !isIn(view, { node, skill }) && isVisible(skill, node))
            .map((skill) => toListed(skill, node, { plain }))
            // A plain name of the session's own that reads like another's prefixed one is the session's own.
            .filter((skill) => !held.has(skill.name)),
        );
        const skills = [...mine, ...own, ...others];
        return {
          skills: view.choice ? choose(skills, view.choice) : skills,
          staleSinceMs: bound === undefined || bound.isOnline ? undefined : bound.sinceMs,
        };
      },
      view.choice,
    );
  }

  ownChanged(): void {
    this.#tell("", "gateway_skills_changed");
  }

  #published(): readonly NodeSkills[] {
    return this.#options.publishes === false ? [] : [...this.#nodes.values()];
  }

  #own({
    nodeId,
    ...options
  }: Omit<GatewayListOptions, "judge"> & { readonly nodeId: string | undefined }): readonly CatalogueSkill[] {
    const { own } = this.#options;
    if (!own) return [];
    return listGatewaySkills(own.skills(), { ...options, judge: (skill) => own.judge(skill, nodeId) });
  }

  /** Names that only one node's skill claims, and nobody else, where such a one is shown under its plain name. */
  #plainNames(nodes: readonly NodeSkills[], others: readonly CatalogueSkill[]): ReadonlySet<string> {
    if (this.#options.prefixesOnCollision !== true) return new Set();
    const claims = new Map<string, number>();
    const claim = (name: string): void => void claims.set(name, (claims.get(name) ?? 0) + 1);
    for (const { skills } of nodes)
      for (const { name, published } of skills) if (name !== undefined) claim(published.name);
    for (const { name, nodeId } of others) if (nodeId === "") claim(name);
    return new Set([...claims].filter(([, count]) => count === 1).map(([name]) => name));
  }

  changes(options: { readonly signal: AbortSignal }): AsyncIterable<{ readonly nodeId: string }> {
    return this.#changes.watch(options);
  }

  async renamed(nodeId: string): Promise<void> {
    const node = this.#nodes.get(nodeId);
    const alias = await this.#options.aliasOf(nodeId);
    if (!node || alias === undefined || alias === node.alias) return;
    const skills = await this.#nameAll(
      node.skills.map((skill) => skill.published),
      { nodeId, alias },
    );
    if (this.#nodes.get(nodeId) === node) this.#put({ ...node, alias, skills }, "node_renamed");
  }

  async #read(link: LiveLink): Promise<void> {
    const { nodeId, generation } = link;
    this.#options.own?.follow(link);
    const published = await readPublished(link);
    const alias = await this.#options.aliasOf(nodeId);
    if (alias === undefined) return;
    const skills = await this.#nameAll(published, { nodeId, alias });
    await this.#options.keep?.(link, published);
    // What an older link still had to say comes too late.
    if (link.signal.aborted || (this.#nodes.get(nodeId)?.generation ?? 0) > generation) return;
    const sinceMs = this.#clock.now();
    this.#put({ nodeId, alias, generation, isOnline: true, sinceMs, skills }, "skills_published");
    this.#options.log.info("a node's skills were read", { nodeId, skills: skills.length });
  }

  async #nameAll(
    published: readonly PublishedSkill[],
    owner: { readonly nodeId: string; readonly alias: Alias },
  ): Promise<readonly NamedSkill[]> {
    const named: NamedSkill[] = [];
    for (const [, ofWorkspace] of Map.groupBy(published, (skill) => skill.workspace)) {
      const winners = new Map<string, PublishedSkill>();
      for (const skill of ofWorkspace.toSorted(compareByRoot)) {
        const winner = skill.state === "ok" ? winners.get(skill.name) : undefined;
        if (skill.state !== "ok" || winner) {
          named.push({ published: skill, name: undefined, winner: winner?.folder });
          continue;
        }
        winners.set(skill.name, skill);
        const claim = { ...owner, workspace: skill.workspace, skill: skill.name };
        named.push({
          published: skill,
          name: await assignName(claim, this.#options.assignments),
          winner: undefined,
        });
      }
    }
    return named;
  }

  #withdraw(nodeId: string, reason: "node_offline" | "revoked"): void {
    const node = this.#nodes.get(nodeId);
    if (reason === "revoked") {
      this.#nodes.delete(nodeId);
      this.#options.own?.forget(nodeId);
      this.#options.assignments.release(nodeId).catch((error: unknown) => {
        this.#options.log.error("names of a revoked node could not be freed", {
          nodeId,
          error: String(error),
        });
      });
    } else if (node) {
      this.#nodes.set(nodeId, { ...node, isOnline: false, sinceMs: this.#clock.now() });
    }
    if (node) this.#tell(nodeId, reason === "revoked" ? "node_revoked" : reason);
  }

  #put(node: NodeSkills, reason: BuildReason): void {
    this.#nodes.set(node.nodeId, node);
    this.#tell(node.nodeId, reason);
  }

  #tell(nodeId: string, reason: BuildReason): void {
    this.#state += 1;
    this.#reason = reason;
    this.#changes.tell({ nodeId });
  }

  /** A list is made once for each state of the catalogue, and is the one before when nothing in it is different. */
  #remember(
    key: string,
    make: () => Pick<SkillList, "skills" | "staleSinceMs">,
    choice?: SkillChoice,
  ): SkillList {
    const known = this.#views.get(key);
    if (known?.state === this.#state) return known.list;
    const { skills: made, staleSinceMs } = make();
    const skills = made.toSorted(
      (a, b) => compareByUtf8(a.name, b.name) || compareByUtf8(place(a), place(b)),
    );
    const snapshot = snapshotOf(skills, { choice });
    const isSame = known?.list.snapshot === snapshot && known.list.staleSinceMs === staleSinceMs;
    const list = isSame
      ? known.list
      : { skills, snapshot, staleSinceMs, builtMs: this.#clock.now(), reason: this.#reasonFor(known) };
    if (!known && this.#views.size >= maxViews) this.#views.clear();
    this.#views.set(key, { list, state: this.#state });
    return list;
  }

  #reasonFor(known: View | undefined): BuildReason {
    return known ? this.#reason : "first_use";
  }
}

function shownPlace({ owner, workspace, folder }: CatalogueSkill): string {
  return `${owner}:/${workspace}/${folder}`;
}

function place(skill: CatalogueSkill): string {
  return skill.nodeId === ""
    ? `${skill.owner}:${skill.source}/${skill.folder}`
    : `${skill.nodeId}/${skill.workspace}/${skill.folder}`;
}

function isIn(view: SkillView, at: { readonly node: NodeSkills; readonly skill: NamedSkill }): boolean {
  return view.bound?.nodeId === at.node.nodeId && view.bound.workspace === at.skill.published.workspace;
}
