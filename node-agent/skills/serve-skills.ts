import { randomUUID } from "node:crypto";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Skills } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { type Clock, systemClock } from "../../shared/lifetime/clock.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";
import { createKnownSkills } from "../../shared/skill-file/known-skills.ts";
import { defaultSkillLimits, type SkillLimits } from "../../shared/skill-file/limits.ts";
import { listSkillFiles, readSkillFile } from "../../shared/skill-file/skill-files.ts";
import { OneAtATime } from "../workers/one-at-a-time.ts";
import { toOpenOptions, type WorkerWorkspaces } from "../workers/worker-settings.ts";
import { openWorkspace, type Workspace } from "../workspace/open-workspace.ts";
import { findSkills, type SearchedWorkspace, type SkillPublication } from "./find-skills.ts";
import { toWireFiles, toWirePart } from "./skill-files-wire.ts";
import { parseSkillFolder } from "./skill-paths.ts";
import { SkillsWatch } from "./skills-watch.ts";

/** What `serveSkills` takes. */
export interface ServeSkillsOptions extends WorkerWorkspaces {
  readonly clock?: Clock;
  readonly skillLimits?: SkillLimits;
  /** Still for so long, in milliseconds, before a change is looked at; 250 by default. */
  readonly debounceMs?: number;
}

/** The skills of all workspaces, found and read in this process. The caller disposes it. */
export interface ServedSkills extends AsyncDisposable {
  /** `Skills`. */
  readonly services: readonly ServedService[];
}

const skillsPerMessage = 50;
const defaultDebounceMs = 250;

/** Serves `Skills` over these workspaces. One that cannot be opened is skipped, and tried again at the next question. */
export function serveSkills(options: ServeSkillsOptions): ServedSkills {
  const shelf = new Shelf(options);
  const skills = serve(Skills, {
    listPublished: async function* (_request, { signal }) {
      const publication = await shelf.find(signal);
      yield { digest: publication.digest };
      for (let at = 0; at < publication.skills.length; at += skillsPerMessage) {
        yield { skills: publication.skills.slice(at, at + skillsPerMessage) };
      }
      for (let at = 0; at < publication.skipped.length; at += skillsPerMessage) {
        yield { skipped: publication.skipped.slice(at, at + skillsPerMessage) };
      }
    },
    readFile: async function* (request, { signal }) {
      const { root } = await shelf.open(request.workspace);
      const { workspace, path, ifMatch } = request;
      const folder = parseSkillFolder(request.folder);
      for await (const part of readSkillFile(root, { folder, path, ifMatch }, signal))
        yield toWirePart(part, workspace);
    },
    listFiles: async (request, { signal }) => {
      const { root } = await shelf.open(request.workspace);
      return toWireFiles(await listSkillFiles(root, parseSkillFolder(request.folder), { signal }));
    },
    watch: (_request, { signal }) => shelf.watch(signal),
  });
  return { services: [skills], [Symbol.asyncDispose]: () => shelf[Symbol.asyncDispose]() };
}

class Shelf implements AsyncDisposable {
  readonly #options: ServeSkillsOptions;
  readonly #clock: Clock;
  readonly #opened = new Map<string, Workspace>();
  readonly #known = new Map<string, SearchedWorkspace["known"]>();
  readonly #turns = new OneAtATime();
  readonly #epoch = randomUUID();

  constructor(options: ServeSkillsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** What is published now, as it is after this was called. */
  find(signal: AbortSignal): Promise<SkillPublication> {
    return this.#turns.run(signal, async () => {
      const searched: SearchedWorkspace[] = [];
      for (const { name } of this.#options.workspaces) {
        const known = this.#known.get(name) ?? createKnownSkills(this.#clock);
        this.#known.set(name, known);
        searched.push({ name, known, root: await this.#tryOpen(name) });
      }
      return await findSkills(searched, {
        limits: this.#options.skillLimits ?? defaultSkillLimits,
        clock: this.#clock,
        signal,
      });
    });
  }

  async open(name: string): Promise<Workspace> {
    const opened = this.#opened.get(name);
    if (opened) return opened;
    const settings = this.#options.workspaces.find((workspace) => workspace.name === name);
    if (!settings) {
      throw new Fault("NOT_FOUND", `this machine exports no workspace ${JSON.stringify(name.slice(0, 64))}`, {
        details: { field: "workspace" },
        hint: "fairlead workspaces ls",
      });
    }
    const workspace = await openWorkspace(settings, toOpenOptions(this.#options));
    const other = this.#opened.get(name);
    if (!other) this.#opened.set(name, workspace);
    else await workspace[Symbol.asyncDispose]();
    return other ?? workspace;
  }

  watch(signal: AbortSignal): ReturnType<SkillsWatch["follow"]> {
    const watch = new SkillsWatch({
      dirs: this.#options.workspaces.map((workspace) => workspace.dir),
      digest: async (scanSignal) => (await this.find(scanSignal)).digest,
      clock: this.#clock,
      debounceMs: this.#options.debounceMs ?? defaultDebounceMs,
      epoch: this.#epoch,
    });
    return watch.follow(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const workspace of this.#opened.values()) await workspace[Symbol.asyncDispose]();
  }

  async #tryOpen(name: string): Promise<SearchedWorkspace["root"]> {
    try {
      return (await this.open(name)).root;
    } catch (error) {
      if (isFault(error)) return error;
      throw error;
    }
  }
}
