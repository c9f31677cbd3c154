import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { parse, stringify } from "yaml";
import { attackLimitMs } from "../../node-agent/cli/doctor-attack.ts";
import { attackContainment } from "../../node-agent/workspace/attack-containment.ts";
import { startDeadline, systemClock } from "../../shared/lifetime/clock.ts";
import { digestTree } from "../bench/files/trees.ts";
import { proves } from "../support/proves.ts";
import { type CliResult, runCli } from "../support/run-cli.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

interface Attacked {
  readonly ok: boolean;
  readonly attacks: readonly {
    readonly workspace: string;
    readonly containment: string;
    readonly swaps: number;
    readonly tries: number;
    readonly escapes: number;
    readonly cases: readonly { readonly name: string; readonly tries: number; readonly escapes: number }[];
  }[];
}

proves(
  "files.attack-command",
  "a person attacks a real workspace, sees what was tried and what came out, and finds it as it was",
  { timeout: 10 * 60_000 },
  async () => {
    await using home = await makeTempFolder();
    await using folder = await makeTempFolder();
    await mkdir(folder.join("src/deep"), { recursive: true });
    for (const name of ["src/one", "src/deep/two", "d"])
      await writeFile(folder.join(name), `content of ${name}`);
    await symlink("src", folder.join("linked"));
    const before = [await digestTree(folder.path), await folder.entries()];
    const run = (args: readonly string[], nodeArgs: readonly string[] = []): Promise<CliResult> =>
      runCli(["node", ...args], { home: home.path, nodeArgs, timeoutMs: attackLimitMs + 30_000 });
    const attack = async (nodeArgs: readonly string[]): Promise<CliResult> => {
      const result = await run(["doctor", "--attack", "--json"], nodeArgs);
      expect([await digestTree(folder.path), await folder.entries()]).toEqual(before);
      return result;
    };

    expect(await run(["doctor", "--attack", "--json"])).toMatchObject({
      exitCode: 4,
      json: { error: { code: "NOT_FOUND", hint: "fairlead node workspace add NAME DIR" } },
    });
    expect((await run(["workspace", "add", "app", folder.path])).exitCode).toBe(0);
    const held = await attack([]);
    const { ok, attacks } = held.json as Attacked;
    const [one] = attacks;
    expect([held.exitCode, ok, attacks.length]).toEqual([0, true, 1]);
    expect(one).toMatchObject({ workspace: "app", containment: "kernel", escapes: 0 });
    expect(one?.swaps).toBeGreaterThanOrEqual(20_000);
    expect(one?.tries).toBeGreaterThanOrEqual(2_000);
    expect(one?.cases.map(({ escapes }) => escapes)).toEqual(one?.cases.map(() => 0));
    expect(one?.cases.every(({ tries }) => tries > 0)).toBe(true);

    const shown = await run(["doctor", "--attack"]);
    expect(shown.stdout).toContain("containment kernel");
    for (const { name } of one?.cases ?? [])
      expect(shown.stdout).toMatch(new RegExp(`${name}: \\d+ tries, \\d+ refused, 0 escapes`));

    // Held by names it is best effort, and what came of that is said: whatever it is, nothing of the attack is left.
    const config = home.join("node/config.yaml");
    const { workspaces } = parse(await readFile(config, "utf8")) as { workspaces: object[] };
    await writeFile(
      config,
      stringify({ workspaces: workspaces.map((each) => ({ ...each, containment: "best_effort" })) }),
    );
    const named = await attack([]);
    const [best] = (named.json as Attacked).attacks;
    expect(best).toMatchObject({ workspace: "app", containment: "best_effort" });
    expect(named.exitCode).toBe(best?.escapes === 0 ? 0 : 1);
    await writeFile(config, stringify({ workspaces }));

    // Where the kernel would follow links after all, it is seen and said.
    const broken = await attack([
      "--import",
      join(import.meta.dirname, "../fixtures/programs/follow-links.mjs"),
    ]);
    const found = broken.json as Attacked;
    expect([broken.exitCode, found.ok]).toEqual([1, false]);
    expect(found.attacks[0]?.cases.find(({ name }) => name === "read a small file")?.escapes).toBeGreaterThan(
      0,
    );
    expect(found.attacks[0]?.escapes).toBeGreaterThan(1);

    // What would go on for ever ends with its time.
    using deadline = startDeadline({ timeoutMs: 1_000 });
    const goal = { swaps: Infinity, tries: Infinity, followSymlinks: false };
    const cut = attackContainment({ dir: folder.path, ...goal, clock: systemClock, signal: deadline.signal });
    expect((await cut).containment).toBe("kernel");
    expect([await digestTree(folder.path), await folder.entries()]).toEqual(before);
    expect(attackLimitMs).toBe(60_000);
  },
);
