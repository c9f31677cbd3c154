import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Files, FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { runLimited } from "./limited-node.ts";

const packages = 2_000;
const foldersEach = 2;
const filesEach = 20;
const watches = 2_000;
const descriptors = 1_024;
const minuteMs = 60_000;

/** A virtual environment of 80,000 files in more folders than the kernel watches. */
function fillEnvironment(dir: string): void {
  for (let at = 0; at < packages; at += 1) {
    for (let part = 0; part < foldersEach; part += 1) {
      const folder = join(dir, `.venv/lib/python3/site-packages/p${at}/m${part}`);
      mkdirSync(folder, { recursive: true });
      for (let file = 0; file < filesEach; file += 1) writeFileSync(join(folder, `f${file}.py`), "");
    }
  }
}

const isState = ({ kind }: FilesWatchResponse): boolean =>
  kind === FilesWatchKind.AVAILABLE || kind === FilesWatchKind.UNAVAILABLE;

proves(
  "files.watch-budget",
  "a large environment in a workspace leaves a node with few descriptors and watches able to work, and quiet",
  { timeout: 900_000 },
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({ "a.txt": "a" });
    fillEnvironment(workspace.path);
    await using joined = await startNode({
      gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
    });
    await using node = await runLimited(joined, { watches, descriptors });
    const limits = readFileSync(`/proc/${node.pid}/limits`, "utf8");
    expect(limits).toMatch(new RegExp(`^Max open files +${descriptors} +${descriptors} `, "m"));
    const run = async (): Promise<void> => {
      const words = ["tools", "call", "devbox__exec", "--json", "--args", '{"command":"echo here"}'];
      const { exitCode, stdout, stderr } = await gateway.cli(words, { timeoutMs: 120_000 });
      expect([exitCode, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining("here")]);
    };
    const open = (): number => readdirSync(`/proc/${node.pid}/fd`).length;
    await expect
      .poll(() => gateway.cli(["files", "stat", "devbox:/app"]).then(({ exitCode }) => exitCode), {
        timeout: 60_000,
      })
      .toBe(0);
    await run();
    const before = open();

    // Lines about watching, in whatever words.
    const about = (): number =>
      node
        .logs()
        .split("\n")
        .filter((line) => /watch|inotify|folder|ENOSPC|EMFILE|limit/i.test(line)).length;
    expect(about()).toBe(0);
    const watchedAt = Date.now();
    const socket = await findAdminSocket(join(gateway.home, "gateway"));
    await using channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    await using watching = await followFiles(channel.client(Files), { workspace: "devbox:/app" });
    await expect.poll(() => watching.events.find(isState), { timeout: 300_000 }).toBeDefined();
    const state = watching.events.find(isState);
    expect(state?.kind).toBe(FilesWatchKind.UNAVAILABLE);
    expect(Number(state?.folders)).toBe(packages * (foldersEach + 1) + 5);
    expect(Number(state?.coveredFolders)).toBeGreaterThan(watches / 2);
    expect(Number(state?.coveredFolders)).toBeLessThanOrEqual(watches);

    // Also while it looks by itself at what the kernel does not watch.
    let most = 0;
    for (let minute = 0; minute < 2; minute += 1) {
      const linesBefore = about();
      const beganAt = Date.now();
      while (Date.now() - beganAt < minuteMs) {
        most = Math.max(most, open());
        await systemClock.sleep(50);
      }
      expect(about() - linesBefore).toBeLessThanOrEqual(1);
    }
    expect(most - before).toBeLessThan(50);
    expect(about()).toBeLessThanOrEqual(Math.ceil((Date.now() - watchedAt) / minuteMs));
    await run();
    writeFileSync(join(workspace.path, "a.txt"), "changed");
    await watching.seen(({ path }) => path === "a.txt");
  },
);
