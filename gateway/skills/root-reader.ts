import type { Fault } from "../../shared/fault/fault.ts";
import { isFault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { rootPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { openRoot } from "../../shared/root/open-root.ts";
import type { RootHandle } from "../../shared/root/root-handle.ts";
import type { TrustedFolder } from "../../shared/root/trusted-folder.ts";
import { discoverSkills, type FoundSkill } from "../../shared/skill-file/discover.ts";
import type { SkillGates } from "../../shared/skill-file/gates.ts";
import {
  createKnownSkills,
  type KnownSkills,
  openSkillFolders,
  readRevision,
} from "../../shared/skill-file/known-skills.ts";
import { defaultSkillLimits, instructionFileName } from "../../shared/skill-file/limits.ts";
import {
  listSkillFiles,
  readSkillFile,
  type SkillFileBytes,
  type SkillFileRequest,
  type SkillFiles,
} from "../../shared/skill-file/skill-files.ts";
import type { SkillReason } from "./catalogue-skill.ts";
import type { GatewayRoot, SkillSource } from "./gateway-roots.ts";

/** A skill of the gateway's own disk, as it was found. */
export interface GatewaySkill {
  readonly source: SkillSource;
  /** The agent whose sessions alone see it. */
  readonly agent: string | undefined;
  /** The root, absolute. */
  readonly root: string;
  /** Its folder below the root. */
  readonly folder: WorkspacePath;
  readonly name: string;
  readonly description: string;
  readonly state: "ok" | "broken" | "skipped";
  readonly reasons: readonly SkillReason[];
  readonly digest: string;
  readonly revision: string;
  readonly frontMatterJson: string;
  /** What must hold where commands run; undefined for one that is broken. */
  readonly gates: SkillGates | undefined;
}

/** Reads the skills of one root. Disposing it closes the root. */
export interface RootReader extends AsyncDisposable {
  /** What is there now, in order of folders; none for a root that is not there. */
  find(signal: AbortSignal): Promise<readonly GatewaySkill[]>;
  /** As the node's reader of skills does it. */
  list(folder: WorkspacePath, signal: AbortSignal): Promise<SkillFiles>;
  read(request: SkillFileRequest, signal: AbortSignal): AsyncIterable<SkillFileBytes>;
}

/** What `openRootReader` takes besides the root. */
export interface RootReaderOptions {
  readonly trusted: readonly TrustedFolder[];
  readonly clock: Clock;
}

/** A reader of a root, which need not be there yet. */
export function openRootReader(root: GatewayRoot, options: RootReaderOptions): RootReader {
  return new Reader(root, options);
}

class Reader implements RootReader {
  readonly #root: GatewayRoot;
  readonly #options: RootReaderOptions;
  readonly #known: KnownSkills;
  #opened: RootHandle | undefined;

  constructor(root: GatewayRoot, options: RootReaderOptions) {
    this.#root = root;
    this.#options = options;
    this.#known = createKnownSkills(options.clock);
  }

  async find(signal: AbortSignal): Promise<readonly GatewaySkill[]> {
    const handle = await this.#tryOpen();
    if (!handle) return [];
    const { clock } = this.#options;
    const folders = openSkillFolders(handle, { known: this.#known, clock, signal });
    try {
      const { skills, skipped } = await discoverSkills(folders, {
        roots: [rootPath],
        limits: defaultSkillLimits,
        signal,
      });
      const found: GatewaySkill[] = [];
      for (const skill of skills) found.push(await this.#toSkill(handle, skill, signal));
      for (const { path, fault } of skipped) found.push(this.#toSkipped(path, fault));
      return found;
    } catch (error) {
      // The root was taken away meanwhile: it is opened anew the next time.
      if (isFault(error, "NOT_FOUND") || isFault(error, "PATH_CHANGED")) return [];
      throw error;
    }
  }

  async list(folder: WorkspacePath, signal: AbortSignal): Promise<SkillFiles> {
    return await listSkillFiles(await this.#open(), folder, { signal });
  }

  async *read(request: SkillFileRequest, signal: AbortSignal): AsyncIterable<SkillFileBytes> {
    yield* readSkillFile(await this.#open(), request, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened?.[Symbol.asyncDispose]();
  }

  async #open(): Promise<RootHandle> {
    this.#opened ??= await openRoot(this.#root.dir, { trusted: this.#options.trusted });
    return this.#opened;
  }

  async #tryOpen(): Promise<RootHandle | undefined> {
    try {
      return await this.#open();
    } catch (error) {
      if (isFault(error, "NOT_FOUND")) return undefined;
      throw error;
    }
  }

  async #toSkill(root: RootHandle, found: FoundSkill, signal: AbortSignal): Promise<GatewaySkill> {
    const { skill, folder } = found;
    const isOk = skill.state === "ok";
    return {
      ...this.#place(folder),
      name: found.name,
      description: isOk ? skill.description : "",
      state: skill.state,
      reasons: skill.diagnostics.map((diagnostic) => ({
        code: diagnostic.severity === "warning" ? "warning" : (diagnostic.code ?? "broken"),
        message: diagnostic.message,
        hint: diagnostic.hint,
        path: `${folder}/${instructionFileName}`,
        line: diagnostic.line,
      })),
      digest: skill.digest ?? "",
      revision: isOk ? await readRevision(root, folder, { known: this.#known, signal }) : "",
      frontMatterJson: isOk ? JSON.stringify(skill.frontMatter) : "",
      gates: isOk ? skill.gates : undefined,
    };
  }

  #toSkipped(path: string, fault: Fault): GatewaySkill {
    const { code, message, hint = "" } = fault;
    return {
      ...this.#place(path as WorkspacePath),
      name: path.slice(path.lastIndexOf("/") + 1),
      description: "",
      state: "skipped",
      reasons: [{ code, message, hint, path, line: 0 }],
      digest: "",
      revision: "",
      frontMatterJson: "",
      gates: undefined,
    };
  }

  #place(folder: WorkspacePath): Pick<GatewaySkill, "source" | "agent" | "root" | "folder"> {
    const { source, dir, agent } = this.#root;
    return { source, agent, root: dir, folder };
  }
}
