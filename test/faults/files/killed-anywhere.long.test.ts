import { randomInt } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { lookAtTree, makeNewTree, writingOperations, type WritingOperation } from "./writing-operations.ts";

const moments = 20;
const patience = { timeout: 20 * 60_000 };
let here: TempFolder;
let pair: FilesPair;
let operations: readonly WritingOperation[];

beforeAll(async () => {
  here = await makeTempFolder();
  await mkdir(here.join("source"));
  await makeNewTree(here.join("source"));
  operations = writingOperations(here.join("source"));
  pair = await startFilesPair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

/** A client of the gateway that runs now. */
async function openClient(): Promise<Client<typeof Files> & AsyncDisposable> {
  const socket = await findAdminSocket(join(pair.gateway.home, "gateway"));
  const channel = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
  return Object.assign(channel.client(Files), {
    [Symbol.asyncDispose]: () => channel[Symbol.asyncDispose](),
  });
}

async function untilUsable(client: Client<typeof Files>): Promise<void> {
  const look = (): Promise<boolean> =>
    client.stat({ workspace: "devbox:/app", path: "" }).then(
      () => true,
      () => false,
    );
  await expect.poll(look, { timeout: 60_000 }).toBe(true);
}

async function stagedIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names.filter((name) => name.includes(".fairlead-"));
}

interface Running {
  readonly operation: WritingOperation;
  readonly path: string;
  readonly disk: string;
  readonly ended: Promise<unknown>;
}

/** Runs each operation in a folder of its own, so that one moment falls anywhere into each of them; gives that moment. */
async function startAll(
  client: Client<typeof Files>,
  round: string,
  lastMs: ReadonlyMap<string, number>,
): Promise<readonly Running[]> {
  const longestMs = Math.max(0, ...lastMs.values());
  const begun: Running[] = [];
  for (const operation of operations) {
    const path = `${round}/${operation.name}`;
    const disk = join(pair.workspace.path, path);
    await mkdir(disk, { recursive: true });
    await operation.prepare(disk);
    begun.push({ operation, path, disk, ended: Promise.resolve() });
  }
  return begun.map((one) => {
    const tookMs = lastMs.get(one.operation.name) ?? 0;
    const waitMs = longestMs - (tookMs * randomInt(0, 1_000)) / 1_000;
    const ended = (async () => {
      if (lastMs.size > 0) await systemClock.sleep(waitMs);
      await one.operation.run(client, one.path);
    })();
    return { ...one, ended: ended.catch(() => undefined) };
  });
}

/** How long each operation takes beside the others. */
async function measure(client: Client<typeof Files>): Promise<ReadonlyMap<string, number>> {
  const startedAt = performance.now();
  const took = new Map<string, number>();
  const running = await startAll(client, "measured", new Map());
  await Promise.all(
    running.map(async ({ operation, ended }) => {
      await ended;
      took.set(operation.name, performance.now() - startedAt);
    }),
  );
  for (const { operation, disk } of running)
    expect([operation.name, await operation.look(disk)]).toEqual([operation.name, "new"]);
  return took;
}

for (const side of ["node", "gateway"] as const) {
  test(
    `whenever the ${side} is killed, what is written is the old or the new, and nothing is left behind`,
    patience,
    async () => {
      let client = await openClient();
      await untilUsable(client);
      const tookMs = await measure(client);
      await rm(join(pair.workspace.path, "measured"), { recursive: true });
      const seen = new Map<string, Set<string>>();
      for (let round = 0; round < moments; round += 1) {
        const running = await startAll(client, `${side}-${round}`, tookMs);
        await systemClock.sleep(Math.max(...tookMs.values()));
        await pair[side].kill("SIGKILL");
        const found = side === "node" ? await lookAtAll(running) : undefined;
        await pair[side].restart();
        await Promise.all(running.map(({ ended }) => ended));
        if (side === "gateway") {
          await client[Symbol.asyncDispose]();
          client = await openClient();
        }
        await untilUsable(client);
        const states = found ?? (await lookAtAll(running));
        for (const [name, state] of states) seen.set(name, (seen.get(name) ?? new Set()).add(state));
        for (const { operation, path, disk } of running) {
          const where = `${operation.name}, round ${round}`;
          await expect.poll(() => stagedIn(disk), { timeout: 60_000, message: where }).toEqual([]);
          // Once more: what was done is said to be, what was not is.
          await operation.run(client, path).catch(() => undefined);
          expect([where, await operation.look(disk)]).toEqual([where, "new"]);
          expect([where, await stagedIn(disk)]).toEqual([where, []]);
        }
        await rm(join(pair.workspace.path, `${side}-${round}`), { recursive: true });
      }
      await client[Symbol.asyncDispose]();
      // The moments fell before the end of some, and behind the end of some.
      expect(new Set([...seen.values()].flatMap((states) => [...states])).size).toBeGreaterThan(1);
    },
  );
}

async function lookAtAll(running: readonly Running[]): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const { operation, disk } of running) found.set(operation.name, await operation.look(disk));
  return found;
}

test(
  "whenever the command is killed, what it writes here is the old or the new, and the same command ends it",
  patience,
  async () => {
    await using client = await openCommands();
    for (let round = 0; round < moments; round += 1) await client.killOnce(round);
  },
);

interface Commands extends AsyncDisposable {
  killOnce(round: number): Promise<void>;
}

/** `get` of a tree and `sync` of one, killed together at a moment of their lives. */
async function openCommands(): Promise<Commands> {
  await makeNewTree(pair.workspace.join("commands"));
  const argsOf = (target: string): readonly (readonly string[])[] => [
    ["files", "get", "devbox:/app/commands", join(target, "got")],
    ["files", "sync", "devbox:/app/commands", join(target, "synced")],
  ];
  const run = async (target: string): Promise<void> => {
    for (const args of argsOf(target)) {
      const { exitCode, stdout, stderr } = await pair.gateway.cli(args, { timeoutMs: 60_000 });
      if (exitCode !== 0) throw new Error(`${args.join(" ")} exited ${exitCode}: ${stdout} ${stderr}`);
    }
  };
  const folder = await makeTempFolder();
  const startedAt = performance.now();
  await Promise.all(argsOf(folder.join("measured")).map((args) => pair.gateway.cli(args)));
  const tookMs = performance.now() - startedAt;
  return {
    killOnce: async (round) => {
      const target = folder.join(`round-${round}`);
      await mkdir(target);
      const programs = argsOf(target).map((args) => spawnProgram(args, { home: pair.gateway.home }));
      await systemClock.sleep((tookMs * randomInt(300, 1_000)) / 1_000);
      for (const program of programs) await program.kill("SIGKILL");
      for (const program of programs) await program[Symbol.asyncDispose]();
      for (const name of ["got", "synced"]) await lookAtTree(join(target, name), "absent");
      await run(target);
      for (const name of ["got", "synced"])
        expect([round, name, await lookAtTree(join(target, name), "absent")]).toEqual([round, name, "new"]);
      expect([round, await stagedIn(target)]).toEqual([round, []]);
      await rm(target, { recursive: true });
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
