import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startHttpServer } from "../../gateway/serve/http.ts";
import { openMcpEndpoint } from "../../gateway/serve/mcp/endpoint.ts";
import { silentLog } from "../../shared/log/log.ts";
import type { McpEra } from "./session-house.ts";
import {
  openSessionKit,
  type KitNode,
  type KitNodeOptions,
  type SessionKit,
  type SessionKitOptions,
} from "./session-kit.ts";

/** A kit with a node and an open session, served over MCP on a loopback port. */
export interface McpKit extends AsyncDisposable {
  readonly kit: SessionKit;
  readonly node: KitNode;
  readonly url: URL;
  readonly sessionId: string;
  readonly token: string;
  readonly tokenId: string;
  connect(era: McpEra): Promise<Client>;
  post(body: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

/** Serves a kit; the caller disposes it. */
export async function serveKit(
  options: SessionKitOptions & { readonly node?: KitNodeOptions } = {},
): Promise<McpKit> {
  await using stack = new AsyncDisposableStack();
  const kit = stack.use(await openSessionKit(options));
  const node = await kit.addNode(options.node ?? {});
  const { id: sessionId } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
  const made = await kit.tokens.create({ sessionId });
  const endpoint = stack.use(openMcpEndpoint({ ...kit, version: "0.0.0", log: silentLog }));
  const server = stack.use(
    await startHttpServer({
      host: "127.0.0.1",
      port: 0,
      log: silentLog,
      routes: [{ path: "/mcp", answer: (request) => endpoint.fetch(request) }],
    }),
  );
  const url = new URL(`http://127.0.0.1:${server.port}/mcp`);
  const headers = { Authorization: `Bearer ${made.text}` };
  const owned = stack.move();
  return {
    kit,
    node,
    url,
    sessionId,
    token: made.text,
    tokenId: made.token.id,
    connect: async (era) => {
      const info = { name: "test", version: "0" };
      const client =
        era === "legacy"
          ? new Client(info)
          : new Client(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
      owned.defer(() => client.close());
      return client;
    },
    post: (body, more = {}) =>
      fetch(url, {
        method: "POST",
        headers: {
          ...headers,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...more,
        },
        body,
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
