import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { programFile } from "../../support/program-file.ts";
import { proves } from "../../support/proves.ts";

const folderCount = 200;
const folders = Array.from({ length: folderCount }, (_, index) => `d${index}`);
const app = "devbox:/app";

/**
 * Runs a program with so many of the kernel's watches: the limit is that of a user namespace of its own, and each line of
 * its input sets another. Prints the program's process id first.
 */
const limited = `
  limit() { echo "$1" > /proc/sys/user/max_inotify_watches; }
  limit 64
  "$@" & echo "pid $!"
  while read -r line; do limit "$line"; done
  wait
`;

interface LimitedNode extends AsyncDisposable {
  raise(limit: number): void;
}

/** The agent of the pair's node, in a process that may watch 64 folders. */
async function runLimited(pair: FilesPair): Promise<LimitedNode> {
  await pair.node.kill("SIGTERM");
  const words = ["node", "run", "--json"];
  const child = spawn(
    "unshare",
    ["-Ur", "sh", "-c", limited, "sh", process.execPath, programFile, ...words],
    {
      env: { PATH: process.env["PATH"] ?? "", HOME: pair.node.home, FAIRLEAD_HOME: pair.node.home },
      stdio: ["pipe", "pipe", "ignore"],
    },
  );
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (output += text));
  const closed = once(child, "close");
  await expect.poll(() => output, { timeout: 60_000 }).toContain('"event":"ready"');
  const pid = Number(/^pid (\d+)$/m.exec(output)?.[1]);
  return {
    raise: (limit) => void child.stdin.write(`${limit}\n`),
    [Symbol.asyncDispose]: async () => {
      // Twice is harmless.
      if (child.stdin.writable) process.kill(pid, "SIGTERM");
      child.stdin.end();
      await closed;
    },
  };
}

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
    const node = await runLimited(pair);
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
