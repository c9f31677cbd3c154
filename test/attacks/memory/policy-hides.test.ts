import { afterAll, beforeAll, expect } from "vitest";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { openTestSessions, type TestSessions } from "../../support/open-sessions.ts";
import { proves } from "../../support/proves.ts";

const secret = "quokkaword";
let pair: FilesPair;
let open: TestSessions;
let sessions: Readonly<Record<"main" | "other", string>>;

beforeAll(async () => {
  pair = await startFilesPair({
    files: {
      "MEMORY.md": "a line that all may read\n",
      "memory/secret.md": `the ${secret} is here\n`,
      "memory/plain.md": "nothing of note, in plain words\n",
    },
    config: "agents:\n  main: { profile: work }\n  other: { profile: work }\n",
  });
  open = await openTestSessions(pair.gateway);
  const opened = async (agent: string): Promise<string> =>
    (await open.sessions.open({ agent, workspace: "devbox:/app" })).session?.id ?? "";
  sessions = { main: await opened("main"), other: await opened("other") };
}, 120_000);

afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
}, 60_000);

async function tool(session: string, name: string, args: object): Promise<string> {
  const argv = ["tools", "call", name, "--session", session, "--args", JSON.stringify(args), "--json"];
  const { stdout, stderr } = await pair.gateway.cli(argv);
  return stdout + stderr;
}

/** All that a session is told of the word: by search and get, of the client and of the tools. */
async function toldOf(session: string): Promise<Readonly<Record<string, string>>> {
  const found = await open.sessions.searchMemory({ session, query: secret, waitFresh: true });
  const got = open.sessions.getMemory({ session, path: "memory/secret.md" });
  return {
    search: JSON.stringify(found.hits.map(({ path, text }) => [path, text])),
    get: await got.then(
      ({ text }) => text,
      (error: unknown) => (error instanceof Error && "code" in error ? String(error.code) : "failed"),
    ),
    memorySearch: await tool(session, "memory_search", { query: secret }),
    memoryGet: await tool(session, "memory_get", { path: "memory/secret.md" }),
  };
}

proves(
  "memory.policy-hides-at-once",
  "what policy closes to an agent is in none of its answers from the next call on, while another still finds it",
  { timeout: 120_000 },
  async () => {
    await expect
      .poll(async () => (await toldOf(sessions.main))["search"], { timeout: 30_000 })
      .toContain(`the ${secret} is here`);
    const before = await toldOf(sessions.main);
    for (const [where, text] of Object.entries(before))
      expect([where, text]).toEqual([where, expect.stringContaining(`the ${secret} is here`)]);

    const closings = [
      "files:\n  shut: { agents: [main], deny: ['memory/secret.md'] }\n",
      "files:\n  shut: { agents: [main], read: ['MEMORY.md', 'memory/plain.md'] }\n",
      "files:\n  shut: { agents: [main], read: ['MEMORY.md', 'memory/plain.md'], ask: on-miss }\n",
    ];
    for (const closing of closings) {
      await pair.setPolicy(closing);
      const told = await toldOf(sessions.main);
      for (const [where, text] of Object.entries(told))
        expect([where, text]).toEqual([where, expect.not.stringContaining(`the ${secret} is here`)]);
      expect([told["search"], told["get"]]).toEqual(["[]", "POLICY_DENIED"]);
      expect(told["memoryGet"]).toContain("POLICY_DENIED");
      // Another agent's session goes on finding it, and so does this one what it may read.
      const other = await toldOf(sessions.other);
      for (const [where, text] of Object.entries(other))
        expect([where, text]).toEqual([where, expect.stringContaining(`the ${secret} is here`)]);
      const plain = await open.sessions.searchMemory({ session: sessions.main, query: "plain words" });
      expect(plain.hits.map(({ path }) => path)).toEqual(["memory/plain.md"]);
    }
    // Taken back, it is found again: no index was made anew for any of it.
    await pair.setPolicy("files: {}\n");
    expect((await toldOf(sessions.main))["search"]).toContain(`the ${secret} is here`);
  },
);
