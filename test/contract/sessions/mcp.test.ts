import { describe, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { serveKit as serveBare, type McpKit } from "../../support/mcp-kit.ts";
import { proves } from "../../support/proves.ts";
import { envelope } from "../../support/session-house.ts";
import { makeSkill, skillText } from "../../support/session-kit.ts";

const serveKit = (): Promise<McpKit> =>
  serveBare({ skills: [makeSkill("deploy")], node: { files: { "a.txt": "one\ntwo\n" } } });

describe.each(["modern", "legacy"] as const)("a %s client", (mode) => {
  test("lists and calls the session's tools", async () => {
    await using served = await serveKit();
    const client = await served.connect(mode);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "devbox__exec",
      "devbox__list",
      "devbox__read",
      "devbox__write",
      "exec",
      "list",
      "memory_get",
      "memory_search",
      "read",
      "write",
    ]);
    const read = await client.callTool({ name: "read", arguments: { path: "a.txt", from: 2 } });
    expect(read).toMatchObject({
      content: [{ type: "text", text: "two\n" }],
      structuredContent: { firstLine: 2, lastLine: 2, totalLines: 2 },
    });
    const run = await client.callTool({ name: "exec", arguments: { command: "echo out; exit 3" } });
    expect(run).toMatchObject({ isError: true, structuredContent: { exitCode: 3, cwd: "/app" } });
  });

  test("gets faults as results, and an unknown tool as an error", async () => {
    await using served = await serveKit();
    const client = await served.connect(mode);
    const failed = await client.callTool({ name: "read", arguments: { path: "none.txt" } });
    expect(failed).toMatchObject({
      isError: true,
      structuredContent: { error: { code: "NOT_FOUND", retryable: false } },
    });
    const wrong = await client.callTool({ name: "read", arguments: { path: 3 } });
    expect(wrong).toMatchObject({
      isError: true,
      structuredContent: { error: { code: "INVALID_ARGUMENT", details: { field: "path" } } },
    });
    await expect(client.callTool({ name: "raed", arguments: {} })).rejects.toMatchObject({ code: -32_602 });
  });

  test("reads skills as resources and searches memory", async () => {
    await using served = await serveKit();
    const client = await served.connect(mode);
    const { resources } = await client.listResources();
    expect(resources).toMatchObject([{ uri: "skill://devbox/deploy/SKILL.md", name: "devbox-deploy" }]);
    const { contents } = await client.readResource({ uri: "skill://devbox/deploy/SKILL.md" });
    expect(contents).toEqual([
      { uri: "skill://devbox/deploy/SKILL.md", mimeType: "text/markdown", text: skillText("deploy") },
    ]);
    for (const uri of [
      "skill://devbox/deploy/../other/SKILL.md",
      "skill://devbox/deploy/a%2fb",
      "skill://devbox/deploy/none",
      "skill://other/deploy/SKILL.md",
      "skill://devbox/deploy/%2e%2e/x",
    ]) {
      await expect(client.readResource({ uri })).rejects.toMatchObject({ code: -32_602 });
    }
    const found = await client.callTool({ name: "memory_search", arguments: { query: "settle" } });
    expect(found).toMatchObject({ structuredContent: { hits: [{ path: "MEMORY.md", firstLine: 3 }] } });
  });

  test("hears once that its tools have changed", async () => {
    await using served = await serveKit();
    const client = await served.connect(mode);
    let heard = 0;
    client.setNotificationHandler("notifications/tools/list_changed", () => {
      heard += 1;
    });
    if (mode === "modern") await client.listen({ toolsListChanged: true });
    const other = await served.kit.addNode({ alias: "other" });
    other.disconnect();
    await other.connect();
    await expect.poll(() => heard).toBe(1);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("other__exec");
  });

  test("is left when its token is revoked", async () => {
    await using served = await serveKit();
    const client = await served.connect(mode);
    await served.kit.tokens.revoke(served.tokenId);
    await expect(client.listTools()).rejects.toThrow();
    expect((await served.post("{}")).status).toBe(401);
  });
});

describe("the endpoint", () => {
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: envelope } };
  const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" };

  test("wants a token, in the header and nowhere else", async () => {
    await using served = await serveKit();
    const bare = await fetch(`${served.url.href}?token=${served.token}&session=${served.sessionId}`, {
      method: "POST",
      body: "{}",
    });
    expect(bare.status).toBe(401);
    expect(bare.headers.get("www-authenticate")).toContain("Bearer");
    expect(await bare.json()).toMatchObject({ error: { data: { code: "UNAUTHENTICATED" } } });
    const wrong = await served.post("{}", { authorization: "Bearer flt_0123456789abcdef_nope" });
    expect(wrong.status).toBe(401);
  });

  test("refuses foreign pages and hosts before it reads anything", async () => {
    await using served = await serveKit();
    expect((await served.post("{}", { origin: "https://evil.example" })).status).toBe(403);
  });

  test("refuses what is too large, too deep or no message, and serves the next request", async () => {
    await using served = await serveKit();
    const deep = `{"a":${"[".repeat(70)}${"]".repeat(70)}}`;
    expect((await served.post(deep)).status).toBe(400);
    expect((await served.post(`"${"x".repeat(4 * 1024 * 1024)}"`)).status).toBe(413);
    expect((await served.post("{", modern)).status).toBe(400);
    expect((await served.post("[]", modern)).status).toBe(400);
    expect(
      (await served.post(JSON.stringify(list), { ...modern, "content-type": "text/plain" })).status,
    ).toBe(415);
    expect((await served.post(JSON.stringify(list), modern)).status).toBe(200);
  });

  test("names both revisions", async () => {
    await using served = await serveKit();
    const discover = { jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta: envelope } };
    const answer = await served.post(JSON.stringify(discover), {
      ...modern,
      "mcp-method": "server/discover",
    });
    expect(await answer.json()).toMatchObject({
      result: {
        supportedVersions: ["2026-07-28", "2025-11-25"],
        capabilities: { extensions: { "io.modelcontextprotocol/skills": {} } },
        ttlMs: expect.any(Number) as number,
        cacheScope: "private",
      },
    });
    const other = { ...envelope, "io.modelcontextprotocol/protocolVersion": "2031-01-01" };
    const refused = await served.post(JSON.stringify({ ...list, params: { _meta: other } }), {
      ...modern,
      "mcp-protocol-version": "2031-01-01",
    });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: { code: -32_022, data: { supported: ["2026-07-28", "2025-11-25"], requested: "2031-01-01" } },
    });
  });

  test("serves skills through their extension", async () => {
    await using served = await serveKit();
    const ask = async (method: string, params: object): Promise<unknown> => {
      const body = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: envelope } };
      return await (await served.post(JSON.stringify(body), { ...modern, "mcp-method": method })).json();
    };
    const entry = {
      uri: "skill://devbox/deploy/SKILL.md",
      frontmatter: { name: "deploy", metadata: { version: "1" } },
      resources: [
        {
          uri: "skill://devbox/deploy/SKILL.md",
          digest: digestOf(skillText("deploy")),
          size: skillText("deploy").length,
        },
        { uri: "skill://devbox/deploy/extra.txt", digest: digestOf("more"), size: 4 },
      ],
    };
    expect(await ask("skills/list", {})).toMatchObject({
      result: { skills: [entry], cacheScope: "private" },
    });
    expect(await ask("skills/get", { uri: entry.uri })).toMatchObject({ result: { skill: entry } });
    expect(await ask("skills/get", { uri: "skill://devbox/x/SKILL.md" })).toMatchObject({
      error: { code: -32_602 },
    });
  });

  test("ends with the session", async () => {
    await using served = await serveKit();
    const client = await served.connect("modern");
    await served.kit.sessions.close(served.sessionId);
    await expect(client.listTools()).rejects.toThrow();
    expect((await served.post(JSON.stringify(list), modern)).status).toBe(404);
  });
});

proves(
  "sessions.mcp-unsupported-version",
  "another version, a message without its envelope, and an unknown method each get their error and status",
  async () => {
    await using served = await serveKit();
    const ask = async (
      message: { readonly method: string; readonly params: object },
      headers: Readonly<Record<string, string>>,
    ): Promise<{ readonly status: number; readonly error: unknown }> => {
      const response = await served.post(JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }), headers);
      return {
        status: response.status,
        error: ((await response.json()) as { readonly error: unknown }).error,
      };
    };
    const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" };
    const version = "2030-05-05";
    const other = { ...envelope, "io.modelcontextprotocol/protocolVersion": version };
    expect(
      await ask(
        { method: "tools/list", params: { _meta: other } },
        { ...headers, "mcp-protocol-version": version },
      ),
    ).toMatchObject({
      status: 400,
      error: { code: -32_022, data: { supported: ["2026-07-28", "2025-11-25"], requested: version } },
    });
    for (const params of [
      {},
      { _meta: {} },
      { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } },
    ]) {
      expect(await ask({ method: "tools/list", params }, headers)).toMatchObject({
        status: 400,
        error: { code: -32_602 },
      });
    }
    expect(
      await ask(
        { method: "tools/fly", params: { _meta: envelope } },
        { ...headers, "mcp-method": "tools/fly" },
      ),
    ).toMatchObject({ status: 404, error: { code: -32_601 } });
  },
);
