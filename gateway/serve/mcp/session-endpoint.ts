import { randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
  type Server,
} from "@modelcontextprotocol/server";
import { Scope } from "../../../shared/lifetime/scope.ts";
import { bodyLimits } from "./body.ts";
import { sendNotices } from "./notices.ts";
import { createMcpServer, type McpServerParts } from "./server.ts";
import { nameAllVersions } from "./versions.ts";

/** What one token has of one session over HTTP; notices of one never reach another. */
export interface SessionEndpoint extends AsyncDisposable {
  /** Resolves when it has ended; never rejects. */
  readonly closed: Promise<unknown>;
  /** Answers a request that was admitted. */
  answer(request: Request): Promise<Response>;
}

interface LegacyClient {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: Server;
}

/** Most clients of the older revision that one token has at a time; the longest idle one goes first. */
const maxLegacyClients = 64;

/** Opens an endpoint; it ends with the signal or its disposal, and all its streams with it. */
export function openSessionEndpoint(
  parts: McpServerParts & { readonly signal: AbortSignal },
): SessionEndpoint {
  return new Endpoint(parts);
}

class Endpoint implements SessionEndpoint {
  readonly #parts: McpServerParts;
  readonly #scope: Scope;
  readonly #modern: ReturnType<typeof createMcpHandler>;
  /** By the id of the older revision's session, in order of their last use. */
  readonly #legacy = new Map<string, LegacyClient>();

  constructor(parts: McpServerParts & { readonly signal: AbortSignal }) {
    this.#parts = parts;
    this.#scope = new Scope("MCP endpoint of a session", parts.signal);
    this.#modern = createMcpHandler(() => createMcpServer(parts), {
      legacy: "reject",
      maxRequestBodySize: bodyLimits.bytes,
    });
    this.#scope.defer(() => this.#modern.close());
    this.#scope.defer(() => this.#closeLegacy());
    this.#scope.spawn("notices", (signal) =>
      sendNotices(parts.face.changes({ signal }), { notices: this.#notices(), clock: parts.clock, signal }),
    );
  }

  get closed(): Promise<unknown> {
    return this.#scope.closed;
  }

  async answer(request: Request): Promise<Response> {
    const options = { maxRequestBodySize: bodyLimits.bytes };
    if (await isLegacyRequest(request, undefined, options)) return await this.#answerLegacy(request);
    return await patchVersions(await this.#modern.fetch(request));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  #notices(): { toolsChanged: () => void; resourcesChanged: () => void } {
    const tell = (send: (server: Server) => Promise<void>): void => {
      for (const { server } of this.#legacy.values()) void send(server).catch(() => undefined);
    };
    return {
      toolsChanged: () => {
        this.#modern.notify.toolsChanged();
        tell((server) => server.sendToolListChanged());
      },
      resourcesChanged: () => {
        this.#modern.notify.resourcesChanged();
        tell((server) => server.sendResourceListChanged());
      },
    };
  }

  async #answerLegacy(request: Request): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : this.#legacy.get(id);
    if (id !== null && known) {
      this.#legacy.delete(id);
      this.#legacy.set(id, known);
      return await known.transport.handleRequest(request);
    }
    if (id !== null) return rpcError(404, -32_001, "there is no such session");
    return await (await this.#openLegacy()).handleRequest(request);
  }

  async #openLegacy(): Promise<WebStandardStreamableHTTPServerTransport> {
    const server = createMcpServer(this.#parts);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        this.#legacy.set(id, { transport, server });
        this.#dropIdle();
      },
      onsessionclosed: (id) => {
        this.#legacy.delete(id);
      },
      maxRequestBodySize: bodyLimits.bytes,
    });
    await server.connect(transport);
    return transport;
  }

  #dropIdle(): void {
    for (const [id, { transport }] of this.#legacy) {
      if (this.#legacy.size <= maxLegacyClients) return;
      this.#legacy.delete(id);
      void transport.close().catch(() => undefined);
    }
  }

  async #closeLegacy(): Promise<void> {
    const clients = [...this.#legacy.values()];
    this.#legacy.clear();
    await Promise.allSettled(clients.map(({ transport }) => transport.close()));
  }
}

/** An answer of JSON-RPC to a request whose id was not read. */
export function rpcError(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", id: null, error: { code, message } }, { status });
}

/** The few answers that list the served versions are small JSON; everything else passes as it is. */
async function patchVersions(response: Response): Promise<Response> {
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  const sizeBytes = Number(response.headers.get("content-length") ?? "0");
  if (!isJson || sizeBytes > 65_536) return response;
  const text = await response.text();
  if (!text.includes('"supportedVersions"') && !text.includes('"supported"'))
    return new Response(text, response);
  const headers = new Headers(response.headers);
  headers.delete("content-length");
  return new Response(JSON.stringify(nameAllVersions(JSON.parse(text))), {
    status: response.status,
    headers,
  });
}
