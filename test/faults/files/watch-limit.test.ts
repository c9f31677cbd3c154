import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { runLimited } from "./limited-node.ts";

const folderCount = 200;
const folders = Array.from({ length: folderCount }, (_, index) => `d${index}`);
const app = "devbox:/app";

interface Shown {
  readonly state: string;
  readonly reason: string;
  readonly nextStep: string;
  readonly freshness: {
    readonly watch: string;
    readonly folders: number;
    readonly coveredFolders: number;
    readonly watchLimit: {
      readonly reached: boolean;
      readonly setting: string;
      readonly limit: number;
    } | null;
  } | null;
}

async function shownOf({ gateway }: FilesPair): Promise<Shown | undefined> {
  const { workspaces } = (await gateway.json(["workspaces", "ls"])) as {
    readonly workspaces: readonly Shown[];
  };
  return workspaces[0];
}

const time: unknown = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/);

proves(
  ["files.watch-ready-means-covered", "files.watch-limit-shown", "files.workspaces-ls"],
  "at the kernel's limit the node says what is covered and looks at the rest, both lists name the setting, and raising it mends all",
  { timeout: 180_000 },
  async () => {
    const files = Object.fromEntries(folders.map((name) => [`${name}/old`, "old"]));
    await using pair = await startFilesPair({ files });
    const node = await runLimited(pair.node, { watches: 64 });
    await using stack = new AsyncDisposableStack();
    const ended = stack.use(node);
    await expect.poll(() => shownOf(pair), { timeout: 30_000 }).toMatchObject({ state: "available" });
    await using watching = await followFiles(pair.client, { workspace: app });
    const isState = ({ kind }: FilesWatchResponse): boolean =>
      kind === FilesWatchKind.AVAILABLE || kind === FilesWatchKind.UNAVAILABLE;
    await watching.seen(isState);
    const first = watching.events.find(isState);
    expect(first?.kind).toBe(FilesWatchKind.UNAVAILABLE);
    expect(Number(first?.folders)).toBe(folderCount + 1);
    expect(Number(first?.coveredFolders)).toBeGreaterThan(10);
    expect(Number(first?.coveredFolders)).toBeLessThan(65);

    for (const name of folders) await writeFile(join(pair.workspace.path, name, "new"), name);
    const created = (): readonly string[] =>
      watching.events.filter(({ kind }) => kind === FilesWatchKind.CREATED).map(({ path }) => path);
    const wanted = folders.map((name) => `${name}/new`).toSorted();
    await expect.poll(() => created().toSorted(), { timeout: 60_000 }).toEqual(wanted);

    const setting = "user.max_inotify_watches";
    expect(await shownOf(pair)).toMatchObject({
      node: "devbox",
      name: "app",
      state: "available",
      since: time,
      freshness: {
        watch: "unavailable",
        lastEventAt: time,
        lastScanAt: time,
        folders: folderCount + 1,
        coveredFolders: Number(first?.coveredFolders),
        watchLimit: { limit: 64, setting, reached: true },
      },
    });
    for (const words of [
      ["workspaces", "ls"],
      ["nodes", "show", "devbox"],
    ]) {
      const { stdout, stderr } = await pair.gateway.cli(words);
      expect(`${stdout}${stderr}`).toContain(`sysctl ${setting}=`);
      expect(`${stdout}${stderr}`).toContain("the limit of 64 watched folders on devbox is reached");
    }
    expect(watching.events.some(({ kind }) => kind === FilesWatchKind.AVAILABLE)).toBe(false);

    // Enough for all, and more than 80 % of it used.
    node.raise(240);
    await watching.seen(({ kind }) => kind === FilesWatchKind.AVAILABLE);
    const available = watching.events.find(({ kind }) => kind === FilesWatchKind.AVAILABLE);
    expect([available?.folders, available?.coveredFolders]).toEqual([201n, 201n]);
    expect(await shownOf(pair)).toMatchObject({
      freshness: {
        watch: "available",
        coveredFolders: 201,
        watchLimit: { limit: 240, setting, reached: false },
      },
    });
    expect(await pair.gateway.json(["nodes", "show", "devbox"])).toMatchObject({
      watchLimit: { limit: 240, setting, reached: false },
    });
    node.raise(10_000);
    await expect
      .poll(async () => (await shownOf(pair))?.freshness?.watchLimit, { timeout: 10_000 })
      .toBeNull();

    await ended[Symbol.asyncDispose]();
    await expect
      .poll(() => shownOf(pair), { timeout: 40_000 })
      .toMatchObject({
        node: "devbox",
        name: "app",
        state: "unavailable",
        since: time,
        reason: "node_offline",
        nextStep: "fairlead nodes show devbox",
      });
  },
);
