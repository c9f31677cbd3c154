import { expect, test } from "vitest";
import { groups as gatewayGroups } from "../../../gateway/cli/commands.ts";
import { groups as nodeGroups } from "../../../node-agent/cli/commands.ts";
import type { CommandGroup, CommandModule } from "../../../shared/terminal/command.ts";

async function loadAll(groups: readonly CommandGroup[]): Promise<readonly CommandModule[]> {
  const loaded = await Promise.all(groups.map(async (group) => await group.load?.()));
  return loaded.flatMap((module) => module?.commands ?? []);
}

const commands = [...(await loadAll(gatewayGroups)), ...(await loadAll(nodeGroups))];

/** The flags of a text that looks like a command line, in order. */
function flagsOf(text: string): readonly string[] {
  return text.match(/(?<=\s)--[a-z][a-z-]*/g) ?? [];
}

test("every command belongs to the word it is listed under", async () => {
  for (const group of [...gatewayGroups, ...nodeGroups]) {
    for (const { words } of (await group.load?.())?.commands ?? [])
      expect(words.split(" ")[0]).toBe(group.word);
  }
  expect(new Set(commands.map(({ words }) => words)).size).toBe(commands.length);
});

test.each(commands.map((command) => [command.words, command] as const))(
  "the example of `%s` calls it, with flags that it has",
  (words, command) => {
    expect(command.example).toMatch(new RegExp(`^fairlead ${words}( |$)`));
    const known = [...(command.options ?? []).map(({ flags }) => flags.split(" ")[0]), "--json", "--home"];
    for (const flag of flagsOf(command.example.replace(/'.*'/g, ""))) expect(known).toContain(flag);
  },
);

test.each(commands.map((command) => [command.words, command] as const))(
  "the help of `%s` is in lower case, without full stops",
  (_, command) => {
    const texts = [
      command.summary,
      ...[...(command.options ?? []), ...(command.args ?? [])].map(({ text }) => text),
    ];
    for (const text of texts) {
      expect(text.length).toBeGreaterThan(3);
      expect(text).not.toMatch(/\.$/);
      expect(text).toMatch(/^(?:[a-z`]|[A-Z]{2}|OAuth)/);
    }
  },
);
