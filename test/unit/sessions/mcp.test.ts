import { createMcpHandler, type Server } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { measureDepth } from "../../../gateway/serve/mcp/body.ts";
import { createMcpServer } from "../../../gateway/serve/mcp/server.ts";
import type { FaceTool, SessionFace } from "../../../gateway/sessions/face.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { compareByUtf8 } from "../../../shared/names/byte-order.ts";
import { proves } from "../../support/proves.ts";
import { envelope } from "../../support/session-house.ts";

function makeTool(name: string): FaceTool {
  return {
    name,
    title: "",
    description: "d",
    inputSchemaJson: '{"type":"object"}',
    outputSchemaJson: "",
    owner: "node",
    node: "devbox",
    effect: "read",
    state: "exposed",
    rule: "",
    reason: "",
    callClass: "idempotent",
  };
}

function serveTools(surface: () => { readonly tools: readonly FaceTool[]; readonly surface: string }): {
  readonly ask: (
    method: string,
    params?: object,
    headers?: Record<string, string>,
  ) => Promise<{ status: number; body: Answer }>;
} {
  const face = {
    sessionId: "s",
    listTools: async () => surface(),
    callTool: async function* callTool() {
      yield { kind: "started", callId: "c" };
      yield { kind: "result", result: { content: [{ type: "text", text: "done" }], details: {} } };
    },
  } as unknown as SessionFace;
  const make = (): Server => createMcpServer({ face, version: "1.2.3", clock: systemClock });
  const handler = createMcpHandler(make, { legacy: "reject" });
  return {
    ask: async (method, params = {}, headers = {}) => {
      const request = new Request("http://127.0.0.1/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": method,
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { _meta: envelope, ...params } }),
      });
      const response = await handler.fetch(request);
      return { status: response.status, body: (await response.json()) as Answer };
    },
  };
}

interface Answer {
  readonly result?: {
    readonly tools: readonly { readonly name: string }[];
    readonly nextCursor?: string;
    readonly ttlMs: number;
    readonly cacheScope: string;
  };
  readonly error?: { readonly code: number };
}

proves(
  "sessions.mcp-list",
  "the list is sorted, cut into pages, private, and a foreign or stale cursor is refused",
  async () => {
    const tools = Array.from({ length: 2_500 }, (_, index) =>
      makeTool(`t${(index * 7_919) % 2_500}`),
    ).toSorted((a, b) => compareByUtf8(a.name, b.name));
    let surface = "sha256:1";
    const { ask } = serveTools(() => ({ tools, surface }));
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await ask("tools/list", cursor === undefined ? {} : { cursor });
      expect(body.result).toMatchObject({ ttlMs: expect.any(Number) as unknown, cacheScope: "private" });
      seen.push(...(body.result?.tools ?? []).map(({ name }) => name));
      cursor = body.result?.nextCursor;
      if (cursor !== undefined) expect(cursor).not.toMatch(/^\d+$/);
    } while (cursor !== undefined);
    expect(seen).toEqual(tools.map(({ name }) => name));
    const first = await ask("tools/list");
    for (const wrong of ["", "7", "bm9uc2Vuc2U", Buffer.from('[1000,"sha256:2"]').toString("base64url")]) {
      expect((await ask("tools/list", { cursor: wrong })).body.error?.code).toBe(-32_602);
    }
    surface = "sha256:2";
    const stale = await ask("tools/list", { cursor: first.body.result?.nextCursor });
    expect(stale.body.error?.code).toBe(-32_602);
  },
);

proves(
  "sessions.mcp-no-task-unasked",
  "a client that did not ask for tasks gets final results, and task ids in its filter are not acknowledged",
  async () => {
    const { ask } = serveTools(() => ({ tools: [makeTool("t")], surface: "s" }));
    const { body } = await ask("tools/call", { name: "t", arguments: {} }, { "mcp-name": "t" });
    expect(body.result).toMatchObject({ resultType: "complete", content: [{ text: "done" }] });
    expect(JSON.stringify(body)).not.toContain("task");
    const face = { listTools: async () => ({ tools: [], surface: "" }) } as unknown as SessionFace;
    const handler = createMcpHandler(() => createMcpServer({ face, version: "1", clock: systemClock }), {
      legacy: "reject",
    });
    const response = await handler.fetch(
      new Request("http://127.0.0.1/mcp", {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2026-07-28",
          "mcp-method": "subscriptions/listen",
        },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "subscriptions/listen",
          params: { _meta: envelope, notifications: { toolsListChanged: true, taskIds: ["secret-task"] } },
        }),
      }),
    );
    let text = "";
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString();
      if (text.includes("\n\n")) break;
    }
    expect(text).toContain("acknowledged");
    expect(text).toContain("toolsListChanged");
    expect(text).not.toContain("secret-task");
    await handler.close();
  },
);

test("depth is counted in the text, and not inside of strings", () => {
  expect(measureDepth('{"a":[{"b":"[[[[{{{"}]}')).toBe(3);
  expect(measureDepth('"\\"[[["')).toBe(0);
  expect(measureDepth("[".repeat(100_000))).toBe(100_000);
});
