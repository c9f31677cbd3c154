import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import type { TrustedFolder } from "../../shared/root/trusted-folder.ts";
import { isInCache } from "../../shared/skill-file/skill-files.ts";
import { VerifiedWatch } from "../../shared/watch/verified-watch.ts";
import type { GatewayRoot } from "./gateway-roots.ts";
import { type GatewaySkill, type RootReader, openRootReader } from "./root-reader.ts";

/** What `startGatewaySkills` takes. */
export interface GatewaySkillsOptions {
  /** Asked again from time to time: an agent's Workshop may come, or go. */
  readonly roots: () => Promise<readonly GatewayRoot[]>;
  /** Folders that linked skills may lie in. */
  readonly trusted: readonly TrustedFolder[];
  /** Whether changes are followed; without, what was found at the start counts. */
  readonly watches: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** The skills of the gateway's own disk. Disposing it ends its watches. */
export interface GatewaySkills extends AsyncDisposable {
  /** In order of precedence of their roots, and then of their folders. */
  skills(): readonly GatewaySkill[];
  /** What reads the files of a root; undefined for one that is gone. */
  reader(dir: string): RootReader | undefined;
  /** An item after each change. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown>;
}

/** Still for so long, in milliseconds, before a change is looked at. */
const debounceMs = 250;
/** How often it is asked which roots there are, in milliseconds. */
const rootsEveryMs = 5_000;

/** Reads the skills of all roots, and follows them. A root that cannot be read is told in the log and holds nothing. */
export async function startGatewaySkills(options: GatewaySkillsOptions): Promise<GatewaySkills> {
  const started = new Started(options);
  await started.begin();
  return started;
}

interface Shelf {
  readonly reader: RootReader;
  skills: readonly GatewaySkill[];
  watch: VerifiedWatch | undefined;
}

class Started implements GatewaySkills {
  readonly #options: GatewaySkillsOptions;
  readonly #scope = new Scope("gateway skills");
  readonly #changes = createBroadcast<{ readonly root: string }>({
    limit: 1,
    keyOf: () => "any",
    onOverflow: () => ({ root: "" }),
  });
  /** By folder, in the order of the roots. */
  #shelves = new Map<string, Shelf>();

  constructor(options: GatewaySkillsOptions) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    const signal = AbortSignal.timeout(60_000);
    await this.#arrange(signal);
    if (this.#options.watches) this.#scope.spawn("roots", (ended) => this.#followRoots(ended));
  }

  skills(): readonly GatewaySkill[] {
    return [...this.#shelves.values()].flatMap((shelf) => shelf.skills);
  }

  reader(dir: string): RootReader | undefined {
    return this.#shelves.get(dir)?.reader;
  }

  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown> {
    return this.#changes.watch(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
    for (const shelf of this.#shelves.values()) await this.#close(shelf);
    this.#shelves.clear();
  }

  async #followRoots(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#options.clock.sleep(rootsEveryMs, { signal });
      await this.#arrange(signal);
    }
  }

  /** The shelves of the roots that there are now; those that stay keep what they know. */
  async #arrange(signal: AbortSignal): Promise<void> {
    const before = this.#shelves;
    const shelves = new Map<string, Shelf>();
    let isOther = false;
    for (const root of await this.#options.roots()) {
      const known = before.get(root.dir);
      if (known) shelves.set(root.dir, known);
      else {
        shelves.set(root.dir, await this.#open(root, signal));
        isOther = true;
      }
    }
    this.#shelves = shelves;
    for (const [dir, shelf] of before) {
      if (shelves.has(dir)) continue;
      isOther = true;
      await this.#close(shelf);
    }
    if (isOther) this.#changes.tell({ root: "" });
  }

  async #open(root: GatewayRoot, signal: AbortSignal): Promise<Shelf> {
    const { trusted, clock, log } = this.#options;
    const shelf: Shelf = { reader: openRootReader(root, { trusted, clock }), skills: [], watch: undefined };
    const scan = async (scanSignal: AbortSignal): Promise<void> => {
      const found = await shelf.reader.find(scanSignal);
      if (JSON.stringify(found) === JSON.stringify(shelf.skills)) return;
      shelf.skills = found;
      this.#changes.tell({ root: root.dir });
    };
    try {
      await scan(signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn("a folder of skills could not be read", {
        dir: root.dir,
        code: faultFromError(error).code,
      });
    }
    if (this.#options.watches) {
      shelf.watch = new VerifiedWatch({
        dir: root.dir,
        includes: (relative) => !isInCache(relative),
        scan,
        onAvailable: () => undefined,
        onUnavailable: (fault) => {
          if (fault.code !== "NOT_FOUND")
            log.warn("a folder of skills is not watched", { dir: root.dir, code: fault.code });
        },
        clock,
        debounceMs,
      });
    }
    return shelf;
  }

  async #close(shelf: Shelf): Promise<void> {
    await shelf.watch?.[Symbol.asyncDispose]();
    await shelf.reader[Symbol.asyncDispose]();
  }
}
