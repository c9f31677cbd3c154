import { expect } from "vitest";
import { openTestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace, type TreeOfFiles } from "../../support/temp-workspace.ts";

const limit = 256 * 1024;

/** A skill whose instruction file has exactly so many bytes. */
function skill(name: string, sizeBytes = 0): string {
  const head = `---\nname: ${name}\ndescription: Does ${name}.\n---\n`;
  return head.padEnd(sizeBytes, "x");
}

function numbered(prefix: string, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${String(index).padStart(4, "0")}`);
}

proves(
  "skills.catalogue-limits",
  "of too many skills, or too many bytes, those that fit by name are published, and the others are skipped with both numbers",
  { timeout: 240_000 },
  async () => {
    const small = numbered("small", 1001);
    const large = numbered("large", 65);
    await using many = await makeTempWorkspace(
      Object.fromEntries(
        small.map((name): [string, string] => [`skills/group/${name}/SKILL.md`, skill(name)]),
      ),
    );
    await using heavy = await makeTempWorkspace(
      Object.fromEntries(
        large.map((name): [string, string] => [`skills/${name}/SKILL.md`, skill(name, limit)]),
      ) satisfies TreeOfFiles,
    );
    await using gateway = await startGateway();
    await using open = await openTestSessions(gateway);
    const listed = async (): Promise<{
      readonly eligible: readonly string[];
      readonly skipped: readonly {
        readonly folder: string;
        readonly code: string;
        readonly message: string;
      }[];
    }> => {
      const { skills } = await open.sessions.listSkills({});
      return {
        eligible: skills.filter(({ state }) => state === "eligible").map(({ name }) => name),
        skipped: skills
          .filter(({ state }) => state === "skipped")
          .map(({ folder, reasons }) => ({
            folder,
            code: reasons[0]?.code ?? "",
            message: reasons[0]?.message ?? "",
          })),
      };
    };
    {
      await using _ = await startNode({ gateway, alias: "many", workspaces: { app: many.path } });
      await expect.poll(async () => (await listed()).eligible.length, { timeout: 60_000 }).toBe(1000);
      const { eligible, skipped } = await listed();
      expect(eligible).toEqual(small.slice(0, 1000).map((name) => `many-${name}`));
      expect(skipped).toEqual([
        {
          folder: "skills/group/small-1000",
          code: "LIMIT_REACHED",
          message: expect.stringMatching(/\b1001\b.*\b1000\b/),
        },
      ]);
    }
    await gateway.json(["nodes", "revoke", "many"]);
    await using node = await startNode({ gateway, alias: "heavy", workspaces: { app: heavy.path } });
    await expect.poll(async () => (await listed()).eligible.length, { timeout: 60_000 }).toBe(64);
    const { eligible, skipped } = await listed();
    expect(eligible).toEqual(large.slice(0, 64).map((name) => `heavy-${name}`));
    expect(skipped).toEqual([
      {
        folder: "skills/large-0064",
        code: "LIMIT_REACHED",
        message: expect.stringMatching(new RegExp(`\\b${65 * limit}\\b.*\\b${64 * limit}\\b`)),
      },
    ]);
    // All 16 MiB of it cross the link, one instruction file after the other, and the link is the same afterwards.
    const before = await gateway.json(["nodes", "show", "heavy"]);
    for (const name of eligible) {
      let sizeBytes = 0;
      for await (const part of open.sessions.readSkill({ name })) sizeBytes += part.chunk.byteLength;
      expect(sizeBytes, name).toBe(limit);
    }
    const after = await gateway.json(["nodes", "show", "heavy"]);
    expect(sinceOf(after)).toBe(sinceOf(before));
    expect(node.nodeId).not.toBe("");
  },
);

function sinceOf(node: unknown): unknown {
  const text = JSON.stringify(node);
  return /"since":"([^"]+)"/.exec(text)?.[1];
}
