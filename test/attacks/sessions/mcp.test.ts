import { request } from "node:http";
import { expect } from "vitest";
import { serveKit, type McpKit } from "../../support/mcp-kit.ts";
import { proves } from "../../support/proves.ts";
import { runCli } from "../../support/run-cli.ts";
import { envelope } from "../../support/session-house.ts";
import { makeSkill } from "../../support/session-kit.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const modern = { "mcp-protocol-version": "2026-07-28" };
const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: envelope } };
const listed = { ...modern, "mcp-method": "tools/list" };
const write = {
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name: "write", arguments: { path: "new.txt", content: "x" }, _meta: envelope },
};

proves(
  "sessions.mcp-bad-bodies",
  "a body that is no message, too deep, too large or of another type is refused, and the next request is served",
  async () => {
    await using served = await serveKit();
    const deep = (levels: number): string => {
      const open = '{"a":'.repeat(levels - 3);
      return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":${JSON.stringify(envelope)},"x":${open}1${"}".repeat(levels - 3)}}}`;
    };
    const bodies: readonly (readonly [string, number, Record<string, string>])[] = [
      ["[]", 400, listed],
      [`[${JSON.stringify(list)}]`, 400, listed],
      [JSON.stringify(list).slice(0, 40), 400, listed],
      ["", 400, listed],
      [deep(66), 400, listed],
      [deep(20_000), 400, listed],
      [`{"a":"${"x".repeat(4 * 1024 * 1024)}"}`, 413, listed],
      [JSON.stringify(list), 415, { ...listed, "content-type": "text/plain" }],
      [JSON.stringify(list), 415, { ...listed, "content-type": "application/x-www-form-urlencoded" }],
    ];
    for (const [body, status, headers] of bodies) {
      const response = await served.post(body, headers);
      expect([body.slice(0, 40), response.status]).toEqual([body.slice(0, 40), status]);
      expect(await response.json()).toMatchObject({
        jsonrpc: "2.0",
        error: { code: expect.any(Number) as unknown },
      });
      expect((await served.post(JSON.stringify(list), listed)).status).toBe(200);
    }
  },
);

proves(
  "sessions.mcp-headers-must-agree",
  "headers that are missing or say another thing than the body get -32020 and run nothing",
  async () => {
    await using served = await serveKit();
    const good = { ...modern, "mcp-method": "tools/call", "mcp-name": "write" };
    const base64 = (text: string): string => `=?base64?${Buffer.from(text).toString("base64")}?=`;
    const without = (name: string): Record<string, string> =>
      Object.fromEntries(Object.entries(good).filter(([key]) => key !== name));
    for (const headers of [
      without("mcp-method"),
      without("mcp-name"),
      without("mcp-protocol-version"),
      { ...good, "mcp-method": "tools/list" },
      { ...good, "mcp-name": "read" },
      { ...good, "mcp-name": base64("read") },
      { ...good, "mcp-protocol-version": "2025-11-25" },
    ]) {
      const response = await served.post(JSON.stringify(write), headers);
      expect([headers, response.status]).toEqual([headers, 400]);
      expect(await response.json()).toMatchObject({ error: { code: -32_020 } });
    }
    expect(await served.node.workspace.has("new.txt")).toBe(false);
    expect((await served.post(JSON.stringify(write), { ...good, "mcp-name": base64("write") })).status).toBe(
      200,
    );
    expect(await served.node.workspace.has("new.txt")).toBe(true);
  },
);

proves(
  "sessions.mcp-browser-attack",
  "foreign pages and hosts are refused before the body is read, plain HTTP stays on loopback, addresses open nothing",
  async () => {
    await using served = await serveKit();
    for (const headers of [
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: "http://localhost.evil.example" },
      { host: "evil.example" },
      { host: "evil.example:80" },
      { host: "127.0.0.1.evil.example" },
    ]) {
      expect([headers, await statusBeforeBody(served, headers)]).toEqual([headers, 403]);
    }
    for (const query of [
      `token=${served.token}`,
      `session=${served.sessionId}`,
      `access_token=${served.token}`,
    ]) {
      const response = await fetch(`${served.url.href}?${query}`, {
        method: "POST",
        headers: {
          ...listed,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify(list),
      });
      expect(response.status).toBe(401);
    }
    await using home = await makeTempFolder();
    const open = await runCli(["gateway", "run", "--http", "0.0.0.0:0", "--listen", "127.0.0.1:0"], {
      home: home.path,
    });
    expect(open.exitCode).toBe(2);
    expect(open.stderr).toContain("loopback");
  },
);

/** The status that comes while the body has only been announced. */
function statusBeforeBody(served: McpKit, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(served.url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${served.token}`,
        "content-type": "application/json",
        "content-length": "1000",
        ...headers,
      },
    });
    sent.once("response", (response) => {
      resolve(response.statusCode ?? 0);
      sent.destroy();
    });
    sent.once("error", reject);
    sent.flushHeaders();
  });
}

proves(
  "sessions.mcp-skill-escape",
  "an address that leads out of a skill the session sees is unknown, and reads on no node",
  async () => {
    const read: string[] = [];
    const skills = [
      makeSkill("deploy"),
      makeSkill("hidden", { state: "offline", reasons: [], location: "skill://devbox/hidden/SKILL.md" }),
      makeSkill("denied", { state: "skipped", reasons: [], location: "skill://devbox/denied/SKILL.md" }),
      makeSkill("other", { nodeId: "other", owner: "other", location: "skill://other/other/SKILL.md" }),
    ];
    await using served = await serveKit({
      skills,
      onSkillRead: (name, path) => void read.push(`${name}:${path}`),
    });
    for (const era of ["modern", "legacy"] as const) {
      const client = await served.connect(era);
      for (const uri of [
        "skill://devbox/deploy/../hidden/SKILL.md",
        "skill://devbox/deploy/%2e%2e/hidden/SKILL.md",
        "skill://devbox/deploy/..%2fhidden/SKILL.md",
        "skill://devbox/deploy/a%2fb",
        "skill://devbox/deploy/a%5cb",
        "skill://devbox/deploy/a%00b",
        "skill://devbox/deploy//SKILL.md",
        "skill://devbox/deploy/./SKILL.md",
        "skill://devbox/deploy/%zz",
        "skill://devbox/hidden/SKILL.md",
        "skill://devbox/denied/SKILL.md",
        "skill://other/deploy/SKILL.md",
        "skill://DEVBOX/deploy/SKILL.md",
        "skill://devbox/",
        "file:///etc/passwd",
      ]) {
        await expect(client.readResource({ uri }), uri).rejects.toMatchObject({ code: -32_602 });
      }
      expect(read).toEqual([]);
      await client.readResource({ uri: "skill://other/other/SKILL.md" });
      expect(read.splice(0)).toEqual(["devbox-other:"]);
    }
  },
);
