import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makePrivateFolder } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import { KernelWatches, type OpenWatch, type WatchLimit } from "./kernel-watches.ts";
import type { Workspace } from "./open-workspace.ts";
import { type Freshness, SharedWatch } from "./shared-watch.ts";
import { WorkspaceManifest } from "./workspace-manifest.ts";

/** What the manifests of this machine stand on. */
export interface ManifestsOptions {
  /** The folder that they are kept in. */
  readonly dir: string;
  /** The exports' names: what was kept of others is removed at the start. */
  readonly names: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  /** How often the kernel's watch is tried, in milliseconds; 10 s by default. */
  readonly scanEveryMs?: number;
  /** The kernel's watches; Node's own by default. */
  readonly openWatch?: OpenWatch;
}

/** The manifest of each workspace, made when it is first asked for. */
export interface Manifests extends AsyncDisposable {
  /** That of `workspace`; another registration of the same name has another. */
  of(workspace: Workspace): WorkspaceManifest;
  /** The watch of `workspace`, over its manifest. */
  watchOf(workspace: Workspace): SharedWatch;
  /** How fresh what is known of the export of this name is. */
  freshness(name: string): Freshness;
  /** The kernel's limit of watches, when it is near or reached. */
  limit(): WatchLimit | undefined;
}

/** How long one that nobody asks for stays in memory, in milliseconds. */
const idleMs = 600_000;
const lookEveryMs = 60_000;
/** A limit is near from this share on. */
const nearShare = 0.8;
const unknown: Freshness = {
  state: "off",
  fault: undefined,
  lastEventAtMs: 0,
  lastScanAtMs: 0,
  folders: 0,
  covered: 0,
};
/** The folder of the kernel watches' own files. */
const cookies = "cookies";
const suffix = ".manifest";

/** Readies the folder; the caller disposes the manifests, after which all of them are on the disk. */
export async function startManifests(options: ManifestsOptions): Promise<Manifests> {
  await makePrivateFolder(options.dir);
  const wanted = new Set(options.names.map((name) => name + suffix));
  for (const file of await readdir(options.dir)) {
    if (!wanted.has(file)) await rm(join(options.dir, file), { recursive: true, force: true });
  }
  return new ManifestRegistry(options);
}

interface Held {
  readonly workspace: Workspace;
  readonly manifest: WorkspaceManifest;
  readonly watch: SharedWatch;
}

class ManifestRegistry implements Manifests {
  readonly #options: ManifestsOptions;
  readonly #scope = new Scope("manifests");
  readonly #kernel: KernelWatches;
  readonly #held = new Map<string, Held>();
  readonly #ending = new Set<Promise<void>>();

  constructor(options: ManifestsOptions) {
    this.#options = options;
    const { dir, clock, openWatch } = options;
    this.#kernel = new KernelWatches({
      dir: join(dir, cookies),
      clock,
      ...(openWatch ? { open: openWatch } : {}),
    });
    this.#scope.spawn("forget", (signal) => this.#forgetIdle(signal));
  }

  of(workspace: Workspace): WorkspaceManifest {
    return this.#hold(workspace).manifest;
  }

  watchOf(workspace: Workspace): SharedWatch {
    return this.#hold(workspace).watch;
  }

  freshness(name: string): Freshness {
    return this.#held.get(name)?.watch.freshness() ?? unknown;
  }

  limit(): WatchLimit | undefined {
    const limit = this.#kernel.limit();
    return limit.isReached || limit.used >= limit.limit * nearShare ? limit : undefined;
  }

  #hold(workspace: Workspace): Held {
    const { name } = workspace.settings;
    const held = this.#held.get(name);
    if (held?.workspace === workspace) return held;
    if (held) this.#drop(name, held);
    const { dir, clock, log, scanEveryMs } = this.#options;
    const manifest = new WorkspaceManifest({ workspace, file: join(dir, name + suffix), clock, log });
    const watch = new SharedWatch({
      workspace,
      manifest,
      clock,
      kernel: this.#kernel,
      ...(scanEveryMs === undefined ? {} : { scanEveryMs }),
    });
    const now = { workspace, manifest, watch };
    this.#held.set(name, now);
    return now;
  }

  async #forgetIdle(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      await clock.sleep(lookEveryMs, { signal });
      for (const [name, held] of this.#held) {
        const isIdle = !held.watch.isWatched && clock.now() - held.manifest.usedAtMs >= idleMs;
        if (isIdle || held.workspace.signal.aborted) this.#drop(name, held);
      }
    }
  }

  #drop(name: string, held: Held): void {
    this.#held.delete(name);
    const ended = end(held).finally(() => void this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
    for (const [name, held] of this.#held) this.#drop(name, held);
    await Promise.all(this.#ending);
    this.#kernel[Symbol.dispose]();
  }
}

async function end({ watch, manifest }: Held): Promise<void> {
  await watch[Symbol.asyncDispose]();
  await manifest[Symbol.asyncDispose]();
}
