import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { proves } from "../../support/proves.ts";
import { envelope, startSessionHouse, type SessionHouse } from "../../support/session-house.ts";
import { startNode } from "../../support/start-node.ts";

const skill = (name: string): string => `---\nname: ${name}\ndescription: how to ${name}\n---\nDo it.\n`;

let house: SessionHouse;

beforeAll(async () => {
  house = await startSessionHouse({
    files: {
      "a.txt": "one\ntwo\n",
      "skills/deploy/SKILL.md": skill("deploy"),
      "skills/deploy/templates/a b.txt": "more\n",
    },
  });
}, 120_000);
afterAll(async () => house[Symbol.asyncDispose]());

const modern = { "mcp-protocol-version": "2026-07-28" };

proves(
  "sessions.mcp-two-revisions",
  "clients of both revisions are served at once over HTTP and standard streams, with the same tools and results",
  { timeout: 120_000 },
  async () => {
    // The newer revision begins with any request.
    const first = await house.post(
      { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: envelope } },
      { ...modern, "mcp-method": "tools/list" },
    );
    expect(first.status).toBe(200);
    const clients: readonly Client[] = await Promise.all([
      house.connectHttp("modern"),
      house.connectHttp("legacy"),
      house.connectStdio("modern"),
      house.connectStdio("legacy"),
    ]);
    expect(clients.map((client) => client.getNegotiatedProtocolVersion())).toEqual([
      "2026-07-28",
      "2025-11-25",
      "2026-07-28",
      "2025-11-25",
    ]);
    const seen = await Promise.all(
      clients.map(async (client) => {
        const { tools } = await client.listTools();
        const { resources } = await client.listResources();
        const calls = [
          client.callTool({ name: "read", arguments: { path: "a.txt", from: 2 } }),
          client.callTool({ name: "exec", arguments: { command: "exit 3" } }),
          client.callTool({ name: "read", arguments: { path: "none" } }),
        ];
        const results = (await Promise.all(calls)).map(({ content, isError, structuredContent }) => {
          const {
            durationMs: _durationMs,
            error,
            ...facts
          } = (structuredContent ?? {}) as Record<string, unknown>;
          const { code } = (error ?? {}) as { readonly code?: string };
          return { content, isError, facts, code };
        });
        return { tools, resources, results };
      }),
    );
    expect(seen[0]?.tools.map(({ name }) => name)).toContain("exec");
    expect(seen[0]?.resources).toMatchObject([{ uri: "skill://devbox/deploy/SKILL.md" }]);
    expect(seen[0]?.results).toMatchObject([
      { content: [{ text: "two\n" }] },
      { isError: true, facts: { exitCode: 3 } },
      { isError: true, code: "NOT_FOUND" },
    ]);
    for (const other of seen.slice(1)) expect(other).toEqual(seen[0]);
  },
);

proves(
  "sessions.mcp-legacy-session",
  "a client of the older revision gets a session id, needs it, ends it, and keeps its call when a stream drops",
  { timeout: 60_000 },
  async () => {
    const initialize = {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "0" } },
    };
    const open = async (): Promise<string> => {
      const response = await house.post(initialize);
      await response.text();
      const id = response.headers.get("mcp-session-id") ?? "";
      expect(id).toMatch(/^[0-9a-f-]{36}$/);
      await (await house.post({ jsonrpc: "2.0", method: "notifications/initialized" }, toSession(id))).text();
      return id;
    };
    const toSession = (id: string): Record<string, string> => ({
      "mcp-session-id": id,
      "mcp-protocol-version": "2025-11-25",
    });
    const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };
    const [id, other] = [await open(), await open()];
    expect(other).not.toBe(id);
    expect((await house.post(list, toSession(id))).status).toBe(200);
    expect((await house.post(list, { "mcp-protocol-version": "2025-11-25" })).status).toBe(400);
    const dropped = new AbortController();
    const call = {
      jsonrpc: "2.0",
      id: 3,
      method: "tools/call",
      params: { name: "exec", arguments: { command: "touch begun; sleep 1; touch finished" } },
    };
    const streaming = fetch(house.url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${house.token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...toSession(id),
      },
      body: JSON.stringify(call),
      signal: dropped.signal,
    }).catch(() => undefined);
    await expect.poll(() => house.workspace.has("begun"), { timeout: 10_000 }).toBe(true);
    dropped.abort();
    await streaming;
    await expect.poll(() => house.workspace.has("finished"), { timeout: 10_000 }).toBe(true);
    const headers = { authorization: `Bearer ${house.token}`, ...toSession(id) };
    expect((await fetch(house.url, { method: "DELETE", headers })).status).toBe(200);
    expect((await house.post(list, toSession(id))).status).toBe(404);
    expect((await house.post(list, toSession(other))).status).toBe(200);
  },
);

proves(
  "sessions.mcp-progress",
  "a call with a token tells of rising progress on its own stream, ten times a second at most, until it ends",
  { timeout: 60_000 },
  async () => {
    const listening = new AbortController();
    const headers = { authorization: `Bearer ${house.token}`, "content-type": "application/json", ...modern };
    const accept = { accept: "application/json, text/event-stream" };
    const listen = await fetch(house.url, {
      method: "POST",
      headers: { ...headers, ...accept, "mcp-method": "subscriptions/listen" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 9,
        method: "subscriptions/listen",
        params: { notifications: { toolsListChanged: true }, _meta: envelope },
      }),
      signal: listening.signal,
    });
    let heard = "";
    const reading = (async () => {
      for await (const chunk of listen.body ?? []) heard += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    await expect.poll(() => heard).toContain("acknowledged");
    const startedAt = performance.now();
    const response = await house.post(
      {
        jsonrpc: "2.0",
        id: 5,
        method: "tools/call",
        params: {
          name: "exec",
          arguments: { command: "for i in $(seq 1 150); do echo $i; sleep 0.01; done" },
          _meta: { ...envelope, progressToken: "p1" },
        },
      },
      { ...modern, "mcp-method": "tools/call", "mcp-name": "exec" },
    );
    const messages = (await response.text())
      .split("\n")
      .filter((line) => line.startsWith("data:"))
      .map(
        (line) =>
          JSON.parse(line.slice(5)) as {
            readonly method?: string;
            readonly id?: number;
            readonly params?: { readonly progress: number; readonly progressToken: string };
          },
      );
    const seconds = (performance.now() - startedAt) / 1_000;
    const notices = messages.filter(({ method }) => method === "notifications/progress");
    const values = notices.map(({ params }) => params?.progress ?? 0);
    expect(notices.length).toBeGreaterThan(2);
    expect(notices.length).toBeLessThanOrEqual(Math.ceil(seconds * 10) + 1);
    expect(values).toEqual(values.toSorted((a, b) => a - b));
    expect(new Set(values).size).toBe(values.length);
    expect(notices.every(({ params }) => params?.progressToken === "p1")).toBe(true);
    expect(messages.at(-1)).toMatchObject({ id: 5 });
    expect(heard).not.toContain("progress");
    listening.abort();
    await reading;
  },
);

interface Listed {
  readonly result: {
    readonly skills: readonly {
      readonly resources: readonly { readonly uri: string; readonly digest: string; readonly size: number }[];
    }[];
  };
}

test("a skill is listed with all of its files, and each reads as it was listed", async () => {
  const answer = await house.post(
    { jsonrpc: "2.0", id: 1, method: "skills/list", params: { _meta: envelope } },
    { ...modern, "mcp-method": "skills/list" },
  );
  const { result } = (await answer.json()) as Listed;
  const listed = result.skills.flatMap(({ resources }) => resources);
  const base = "skill://devbox/deploy";
  expect(listed.map(({ uri }) => uri)).toEqual([`${base}/SKILL.md`, `${base}/templates/a%20b.txt`]);
  const client = await house.connectHttp("legacy");
  for (const { uri, digest, size } of listed) {
    const { contents } = await client.readResource({ uri });
    const text = String((contents[0] as { readonly text?: string }).text);
    expect([digestOf(text), Buffer.byteLength(text)]).toEqual([digest, size]);
  }
});

proves(
  "sessions.mcp-list-changed",
  "a burst of changes sends one notice of its kind within a second, and a link that comes back unchanged none",
  { timeout: 120_000 },
  async () => {
    const client = await house.connectHttp("modern");
    const heard: string[] = [];
    client.setNotificationHandler("notifications/tools/list_changed", () => void heard.push("tools"));
    client.setNotificationHandler("notifications/resources/list_changed", () => void heard.push("resources"));
    await client.listen({ toolsListChanged: true, resourcesListChanged: true });
    const told = async (kinds: readonly string[], change: () => Promise<boolean>): Promise<void> => {
      await expect.poll(change, { timeout: 20_000, interval: 20 }).toBe(true);
      await expect.poll(() => heard, { timeout: 1_000 }).toEqual(kinds);
    };
    await house.workspace.write({ "skills/more/SKILL.md": skill("more") });
    await told(["resources"], async () => (await client.listResources()).resources.length === 2);
    await using laptop = await startNode({ gateway: house.gateway, alias: "laptop", profile: "full" });
    await told(["resources", "tools"], async () => {
      const { tools } = await client.listTools();
      return tools.some(({ name }) => name === "laptop__exec");
    });
    await house.node.kill("SIGKILL");
    await house.node.restart();
    const answers = async (): Promise<boolean> => {
      const { isError } = await client.callTool({ name: "exec", arguments: { command: "true" } });
      return isError !== true;
    };
    await expect.poll(answers, { timeout: 20_000 }).toBe(true);
    // The next notice is of the next change: there was none in between.
    await laptop.kill("SIGTERM");
    await told(["resources", "tools", "tools"], async () => {
      const { tools } = await client.listTools();
      return tools.every(({ name }) => name !== "laptop__exec");
    });
  },
);
