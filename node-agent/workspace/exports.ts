import { isDeepStrictEqual } from "node:util";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { NameFolding } from "../../shared/names/folded-name.ts";
import type { Containment } from "../../shared/root/root-handle.ts";
import type { ExportSettings } from "./export-settings.ts";
import { openWorkspace, type OpenWorkspaceOptions, type Workspace } from "./open-workspace.ts";

/** One export as it is now. */
export interface ExportState {
  readonly settings: ExportSettings;
  /** The registration; 0 while the folder could not be opened yet. */
  readonly epoch: number;
  readonly containment?: Containment;
  /** Its volume takes upper and lower case for one. */
  readonly folding?: NameFolding;
  /** Why it is not available; undefined when it is. */
  readonly fault?: Fault;
}

/** What this machine exports. Names are unique. */
export interface Exports extends AsyncDisposable {
  /** The exports in their order. */
  list(): readonly ExportState[];
  /** The workspace `name`; `NOT_FOUND` when none is exported so. One whose folder was missing is tried again. */
  get(name: string): Promise<Workspace>;
  /**
   * Follows changed settings: what is gone ends, what only has other permissions goes on, what is new is opened. An export
   * whose new rules are none keeps its last good settings, and once the rest is followed this fails with what is wrong.
   */
  apply(settings: readonly ExportSettings[]): Promise<void>;
}

/** What `startExports` takes besides the settings. */
export interface ExportsOptions extends Omit<OpenWorkspaceOptions, "epoch"> {
  /** Told after each change of the list or of what is in it. */
  readonly onChange?: () => void;
}

/** Opens every export that can be opened; one that cannot is listed with its fault. The caller disposes it. */
export async function startExports(
  settings: readonly ExportSettings[],
  options: ExportsOptions,
): Promise<Exports> {
  const exported = new ExportRegistry(options);
  await exported.apply(settings);
  return exported;
}

interface Held {
  settings: ExportSettings;
  workspace: Workspace | undefined;
  fault: Fault | undefined;
}

class ExportRegistry implements Exports {
  readonly #options: ExportsOptions;
  #held = new Map<string, Held>();
  #epoch = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #isEnded = false;

  constructor(options: ExportsOptions) {
    this.#options = options;
  }

  list(): readonly ExportState[] {
    return [...this.#held.values()].map(({ settings, workspace, fault }) => ({
      settings,
      epoch: workspace?.epoch ?? 0,
      ...(workspace ? { containment: workspace.root.containment, folding: workspace.root.folding } : {}),
      ...(fault ? { fault } : {}),
    }));
  }

  async get(name: string): Promise<Workspace> {
    const held = this.#held.get(name);
    if (!held) {
      throw new Fault("NOT_FOUND", `no workspace is exported as ${name}`, {
        details: { workspace: name },
        hint: "fairlead node workspace ls",
      });
    }
    if (held.workspace) return held.workspace;
    await this.#inTurn(async () => {
      if (this.#held.get(name) !== held || held.workspace) return;
      await this.#open(held);
      if (!held.fault) this.#options.onChange?.();
    });
    if (held.workspace) return held.workspace;
    throw (
      held.fault ??
      new Fault("WORKSPACE_ACCESS_UNAVAILABLE", `workspace ${name} is not exported any more`, {
        details: { reason: "stopped", workspace: name },
      })
    );
  }

  async apply(settings: readonly ExportSettings[]): Promise<void> {
    const refused: Fault[] = [];
    await this.#inTurn(async () => {
      const good = settings.map((one) => this.#orLastGood(one, refused));
      await this.#apply(good);
    });
    this.#options.onChange?.();
    const [first] = refused;
    if (first) throw first;
  }

  /** `settings`, or those that the export of that name has, when the rules of the new ones are none. */
  #orLastGood(settings: ExportSettings, refused: Fault[]): ExportSettings {
    const held = this.#held.get(settings.name);
    if (!held?.workspace || isDeepStrictEqual(held.settings, settings)) return settings;
    try {
      held.workspace.check(settings);
      return settings;
    } catch (error) {
      if (!isFault(error)) throw error;
      refused.push(error);
      return held.settings;
    }
  }

  async #apply(settings: readonly ExportSettings[]): Promise<void> {
    if (this.#isEnded) return;
    const old = this.#held;
    const next = new Map(settings.map((one) => [one.name, keep(old.get(one.name), one)]));
    this.#held = next;
    const kept = new Set(next.values());
    const gone = [...old.values()].filter((held) => !kept.has(held));
    await Promise.all(gone.map(async (held) => held.workspace?.[Symbol.asyncDispose]()));
    for (const held of next.values()) if (!held.workspace) await this.#open(held);
  }

  async #open(held: Held): Promise<void> {
    try {
      this.#epoch += 1;
      held.workspace = await openWorkspace(held.settings, { ...this.#options, epoch: this.#epoch });
      held.fault = undefined;
    } catch (error) {
      if (!isFault(error)) throw error;
      held.fault = error;
    }
  }

  /** One change at a time, in the order of asking. */
  async #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => undefined);
    await mine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#inTurn(async () => {
      this.#isEnded = true;
      const held = [...this.#held.values()];
      this.#held = new Map();
      await Promise.all(held.map(async ({ workspace }) => workspace?.[Symbol.asyncDispose]()));
    });
  }
}

/** The same export when only its permissions differ; else a new one. */
function keep(held: Held | undefined, settings: ExportSettings): Held {
  if (!held?.workspace || !isSameFolder(held.settings, settings)) {
    return { settings, workspace: undefined, fault: undefined };
  }
  if (isDeepStrictEqual(held.settings, settings)) return held;
  held.workspace.permit(settings);
  held.settings = settings;
  return held;
}

function isSameFolder(a: ExportSettings, b: ExportSettings): boolean {
  const wasWritable = a.write.length > 0;
  return (
    a.dir === b.dir &&
    a.followSymlinks === b.followSymlinks &&
    isDeepStrictEqual(a.allowSymlinkTargets, b.allowSymlinkTargets) &&
    a.allowHardLinks === b.allowHardLinks &&
    a.containment === b.containment &&
    wasWritable === b.write.length > 0
  );
}
