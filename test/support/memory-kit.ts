import type { MemoryWorkspace, MemoryWorkspaces } from "../../gateway/memory/memory-workspace.ts";
import { type MemoryIndexes, type MemoryOptions, startMemory } from "../../gateway/memory/memory.ts";
import { type MemoryHost, startMemory as startNodeMemory } from "../../node-agent/memory/memory.ts";
import type { ExportSettings } from "../../node-agent/workspace/export-settings.ts";
import { createQueue } from "../../shared/flow/queue.ts";
import { silentLog } from "../../shared/log/log.ts";
import type { ServedService } from "../../shared/rpc/service.ts";
import { createDirectLinks, type DirectLinks } from "./direct-link.ts";
import { makeTempFolder } from "./temp-folder.ts";

/** A folder as a read-only export without rules of its own. */
export function toExport(name: string, dir: string): ExportSettings {
  return {
    name,
    dir,
    read: ["**"],
    write: [],
    deny: [],
    remove: false,
    move: false,
    mkdir: false,
    followSymlinks: false,
    allowHardLinks: false,
    maxFileBytes: undefined,
  };
}

/** The memory of a gateway over nodes of this process, each with a real worker. Disposing ends all of it. */
export interface MemoryKit extends AsyncDisposable {
  readonly memory: MemoryIndexes;
  readonly links: DirectLinks;
  /** The folder of the index files. */
  readonly indexDir: string;
  /** Starts a node's Memory worker on these folders and links it; workspace `W` of node `N` has the id `n-w`. */
  addNode(nodeId: string, folders: Readonly<Record<string, string>>): Promise<MemoryHost>;
  /** The same for a service that a test wrote. */
  addService(nodeId: string, workspaces: readonly string[], service: ServedService): void;
  /** Takes the workspaces of a node off the list, as after a revocation. */
  dropNode(nodeId: string): void;
  /** Ends the indexes and starts them again on the same files, with other settings where some are given. */
  restart(betweenThem?: () => Promise<void> | void, options?: MemoryKitOptions): Promise<MemoryIndexes>;
}

/** How the indexes of a kit are kept. */
export type MemoryKitOptions = Partial<Pick<MemoryOptions, "settings" | "provider" | "log">>;

/** Makes a kit without any node. */
export async function openMemoryKit(options: MemoryKitOptions = {}): Promise<MemoryKit> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const links = createDirectLinks();
  const workspaces = new ChangingWorkspaces();
  const indexDir = folder.join("index");
  const start = (more: MemoryKitOptions): Promise<MemoryIndexes> =>
    startMemory({ links, indexDir, workspaces, log: silentLog, ...more });
  let memory = await start(options);
  stack.defer(async () => await memory[Symbol.asyncDispose]());
  const owned = stack.move();
  const addServices = (
    nodeId: string,
    names: readonly string[],
    services: readonly ServedService[],
  ): void => {
    workspaces.add(names.map((name) => ({ id: `${nodeId}-${name}`, nodeId, alias: nodeId, name })));
    links.connect({ nodeId, services });
  };
  return {
    get memory() {
      return memory;
    },
    links,
    indexDir,
    addNode: async (nodeId, folders) => {
      const host = owned.use(startHost(folders, folder.path));
      addServices(nodeId, Object.keys(folders), [host.service]);
      return host;
    },
    addService: (nodeId, names, service) => addServices(nodeId, names, [service]),
    dropNode: (nodeId) => workspaces.drop(nodeId),
    restart: async (betweenThem, others = options) => {
      await memory[Symbol.asyncDispose]();
      await betweenThem?.();
      memory = await start(others);
      return memory;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function startHost(folders: Readonly<Record<string, string>>, homeDir: string): MemoryHost {
  const workspaces = Object.entries(folders).map(([name, dir]) => toExport(name, dir));
  const limits = { treeEntries: 1_000_000, treeDepth: 64 };
  return startNodeMemory({
    workspaces: () => ({ workspaces, homeDir, limits }),
    environment: { HOME: homeDir, PATH: "/usr/bin:/bin" },
    log: silentLog,
  });
}

class ChangingWorkspaces implements MemoryWorkspaces {
  readonly #listeners = new Set<() => void>();
  #present: readonly MemoryWorkspace[] = [];

  list(): readonly MemoryWorkspace[] {
    return this.#present;
  }

  async *changes(options: { readonly signal: AbortSignal }): AsyncIterable<number> {
    const queue = createQueue<number>(100);
    options.signal.addEventListener("abort", () => queue.close(options.signal.reason), { once: true });
    this.#listeners.add(() => void queue.push(0));
    yield* queue;
  }

  add(more: readonly MemoryWorkspace[]): void {
    this.#present = [...this.#present, ...more];
    for (const tell of this.#listeners) tell();
  }

  drop(nodeId: string): void {
    this.#present = this.#present.filter((workspace) => workspace.nodeId !== nodeId);
    for (const tell of this.#listeners) tell();
  }
}
