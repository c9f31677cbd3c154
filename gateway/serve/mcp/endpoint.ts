import {
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
} from "@modelcontextprotocol/server";
import { httpStatus } from "../../../shared/fault/codes.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { Fault, toFaultJson } from "../../../shared/fault/fault.ts";
import { systemClock, type Clock } from "../../../shared/lifetime/clock.ts";
import type { Log } from "../../../shared/log/log.ts";
import { openLocalFace, type FaceParts } from "../../sessions/session-face.ts";
import type { Sessions } from "../../sessions/sessions.ts";
import type { HeldToken, Tokens } from "../../sessions/tokens.ts";
import { bodyLimits, measureDepth, readBody } from "./body.ts";
import { openSessionEndpoint, rpcError, type SessionEndpoint } from "./session-endpoint.ts";

/** What the MCP endpoint needs. */
export interface McpEndpointOptions extends FaceParts {
  readonly tokens: Pick<Tokens, "require">;
  readonly sessions: Pick<Sessions, "caller" | "states" | "latestOf">;
  /** The gateway's version. */
  readonly version: string;
  /** The machine's own by default. */
  readonly clock?: Clock;
  readonly log: Log;
}

/** MCP over streamable HTTP. */
export interface McpEndpoint extends AsyncDisposable {
  /** Answers one request. */
  fetch(request: Request): Promise<Response>;
}

/**
 * The MCP endpoint of the gateway. A request comes from this machine (its `Host` and `Origin` say so), carries a token,
 * and gets the session that the token opens; nothing in an address counts.
 */
export function openMcpEndpoint(options: McpEndpointOptions): McpEndpoint {
  return new Endpoint(options);
}

class Endpoint implements McpEndpoint {
  readonly #options: McpEndpointOptions;
  readonly #open = new Map<string, SessionEndpoint>();

  constructor(options: McpEndpointOptions) {
    this.#options = options;
  }

  async fetch(request: Request): Promise<Response> {
    const foreign =
      hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
      originValidationResponse(request, localhostAllowedOrigins());
    if (foreign) return foreign;
    try {
      const held = await this.#admit(request);
      const bounded = await withBoundedBody(request);
      if (bounded instanceof Response) return bounded;
      return await (await this.#endpointOf(held)).answer(bounded);
    } catch (error) {
      return this.#toResponse(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const endpoints = [...this.#open.values()];
    this.#open.clear();
    await Promise.allSettled(endpoints.map((endpoint) => endpoint[Symbol.asyncDispose]()));
  }

  async #admit(request: Request): Promise<HeldToken> {
    const [, text] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
    if (text !== undefined) return await this.#options.tokens.require(text);
    throw new Fault("UNAUTHENTICATED", "a token is needed", {
      hint: "fairlead tokens create --session ID, and send it as Authorization: Bearer TOKEN",
    });
  }

  async #endpointOf({ token, lease }: HeldToken): Promise<SessionEndpoint> {
    const { sessions, version, clock = systemClock } = this.#options;
    if (token.role !== undefined) throw opensNothingFault();
    const sessionId = token.sessionId ?? (await sessions.latestOf(token.agent ?? "")).id;
    const { session } = await sessions.caller(sessionId);
    const key = `${token.id} ${sessionId}`;
    const open = this.#open.get(key);
    if (open) return open;
    const signal = AbortSignal.any([lease.signal, ...(session ? [session.lease.signal] : [])]);
    signal.throwIfAborted();
    const endpoint = openSessionEndpoint({
      face: openLocalFace(sessionId, this.#options),
      version,
      clock,
      signal,
    });
    this.#open.set(key, endpoint);
    void endpoint.closed.then(() => {
      if (this.#open.get(key) === endpoint) this.#open.delete(key);
    });
    return endpoint;
  }

  #toResponse(error: unknown): Response {
    const fault = faultFromError(error);
    if (fault.code === "INTERNAL")
      this.#options.log.error("an MCP request failed", { fault: toFaultJson(fault), error });
    const status = httpStatus(fault.code);
    const headers = status === 401 ? { "WWW-Authenticate": 'Bearer realm="fairlead"' } : {};
    const body = {
      jsonrpc: "2.0",
      id: null,
      error: { code: -32_000, message: fault.message, data: toFaultJson(fault) },
    };
    return Response.json(body, { status, headers });
  }
}

function opensNothingFault(): Fault {
  return new Fault("POLICY_DENIED", "the token gives a role on the gateway and opens no session", {
    hint: "fairlead tokens create --session ID",
    details: { side: "gateway", rule: "token.purpose" },
  });
}

/** The request with its body read: what is too large or too deep never reaches a parser. */
async function withBoundedBody(request: Request): Promise<Request | Response> {
  if (request.method !== "POST") return request;
  const text = await readBody(request);
  if (text === undefined) return rpcError(413, -32_600, `a message has at most ${bodyLimits.bytes} bytes`);
  if (measureDepth(text) > bodyLimits.depth) {
    return rpcError(400, -32_600, `a message has at most ${bodyLimits.depth} levels`);
  }
  const { method, headers, signal } = request;
  return new Request(request.url, { method, headers, body: text, signal });
}
