import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeSyncKit, treeOf, type SyncKit, type SyncResult } from "../../scenarios/files/sync-kit.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startBreakablePair, type BreakablePair } from "./one-way.ts";

const mebi = 1024 * 1024;
const count = 200;

/** What is synced from where to where. */
interface Sides {
  readonly source: string;
  readonly target: string;
  readonly more: readonly string[];
}

function sidesOf({ remote, local }: SyncKit, isPush: boolean): Sides {
  return isPush
    ? { source: local, target: remote, more: ["--push"] }
    : { source: remote, target: local, more: [] };
}

const nameOf = (index: number): string => `d${index % 10}/f${index}`;

async function fill(source: string): Promise<void> {
  for (let at = 0; at < 10; at += 1) await mkdir(join(source, `d${at}`), { recursive: true });
  for (let at = 0; at < count; at += 1) await writeFile(join(source, nameOf(at)), randomBytes(8192));
  await mkdir(join(source, "becomes-file/deep"), { recursive: true });
  await writeFile(join(source, "becomes-file/deep/inner"), "inner");
  await writeFile(join(source, "becomes-folder"), "a file");
  await symlink("d0", join(source, "link"));
  await writeFile(join(source, "large"), randomBytes(32 * mebi));
}

/** Ends a first sync by force when all small files have arrived, and the large one has not. */
async function syncAndKill(pair: BreakablePair, kit: SyncKit, { target, more }: Sides): Promise<void> {
  pair.proxy.share(12 * mebi);
  const remote = `devbox:/app/${kit.remote.slice(pair.workspace.path.length + 1)}`;
  await using program = spawnProgram(["files", "sync", remote, kit.local, ...more], {
    home: pair.gateway.home,
  });
  const staged = async (): Promise<readonly string[]> => {
    const [names, last] = [await readdir(target).catch(() => []), nameOf(count - 1)];
    return existsSync(join(target, last)) ? names.filter((name) => name.startsWith(".")) : [];
  };
  await expect.poll(staged, { timeout: 60_000, interval: 5 }).toHaveLength(1);
  await program.kill("SIGKILL");
  pair.proxy.mend();
  expect(await readdir(target)).not.toContain("large");
}

async function changeSource(source: string): Promise<void> {
  await writeFile(join(source, nameOf(1)), "changed since it was sent");
  await rm(join(source, nameOf(2)));
  await writeFile(join(source, nameOf(4)), "changed here");
  await writeFile(join(source, "large"), randomBytes(16 * mebi));
  await rm(join(source, "becomes-file"), { recursive: true });
  await writeFile(join(source, "becomes-file"), "a file now");
  await rm(join(source, "becomes-folder"));
  await mkdir(join(source, "becomes-folder"));
  await writeFile(join(source, "becomes-folder/inner"), "inside now");
  await rm(join(source, "link"));
  await symlink("d1", join(source, "link"));
}

test(
  "a sync that was killed and its source changed since makes one of both, and takes nothing for a conflict that is none",
  { timeout: 10 * 60_000 },
  async () => {
    await using pair = await startBreakablePair();
    for (const isPush of [false, true]) {
      await using kit = await makeSyncKit(pair, isPush ? "pushed" : "pulled");
      const sides = sidesOf(kit, isPush);
      const { source, target, more } = sides;
      await mkdir(source, { recursive: true });
      await fill(source);
      await syncAndKill(pair, kit, sides);
      await changeSource(source);
      // This one really was changed on both sides.
      await writeFile(join(target, nameOf(4)), "changed there");

      const second = await kit.run("--json", "--delete", ...more);
      const { failed } = second.json as SyncResult;
      const told = failed.map(({ path, code }) => `${path} ${code}`);
      expect([isPush, second.exitCode, told]).toEqual([isPush, 7, [`${nameOf(4)} CONFLICT`]]);
      // What the killed run had brought is known, and nobody has changed it since: it makes room.
      expect(await readFile(join(target, "becomes-file"), "utf8")).toBe("a file now");
      expect(await readFile(join(target, "becomes-folder/inner"), "utf8")).toBe("inside now");
      await writeFile(join(target, nameOf(4)), "changed here");
      expect(await kit.sync("--delete", ...more)).toMatchObject({ failed: [], filesSent: 0 });
      expect(await treeOf(target)).toEqual(await treeOf(source));
      expect(await readlink(join(target, "link"))).toBe("d1");
      // A link whose target changed at the target meanwhile is nobody's to replace.
      await rm(join(target, "link"));
      await symlink("d2", join(target, "link"));
      await rm(join(source, "link"));
      const third = await kit.run("--json", "--delete", ...more);
      expect([isPush, await readlink(join(target, "link")), third.exitCode]).toEqual([isPush, "d2", 7]);
    }
  },
);
