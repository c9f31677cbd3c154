import { createServer, type Server } from "node:http";
import {
  localhostHostValidation,
  localhostOriginValidation,
  toNodeHandler,
} from "@modelcontextprotocol/node";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault, toFaultJson } from "../../shared/fault/fault.ts";
import type { Log } from "../../shared/log/log.ts";

/** What answers under one path. */
export interface HttpRoute {
  /** The path, exact. */
  readonly path: string;
  /** The answer; a failure becomes a 500 with a fault. */
  readonly answer: (request: Request) => Promise<Response>;
}

/** What the HTTP server needs. */
export interface HttpOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly routes: readonly HttpRoute[];
  readonly log: Log;
}

/** A running HTTP server. */
export interface HttpServer extends AsyncDisposable {
  /** The port it listens on. */
  readonly port: number;
}

/** Serves `routes`; everything else is 404. Ends its connections when disposed. */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const routes = new Map(options.routes.map((route) => [route.path, route.answer]));
  const handler = toNodeHandler({
    fetch: async (request: Request): Promise<Response> => {
      const answer = routes.get(new URL(request.url).pathname);
      return answer ? await answer(request) : notFound(request);
    },
  });
  const isFromHere = [localhostHostValidation(), localhostOriginValidation()];
  // The library's type of a request only lacks the word `undefined` beside its optional members.
  const server = createServer((request, response) => {
    // Before a byte of the body: a page of another site, or a name that was made to lead here, gets 403.
    if (!isFromHere.every((isFine) => isFine(request, response))) return;
    void handler(request as Parameters<typeof handler>[0], response);
  });
  // Slow strangers: a request's head and body have to come in this time; answers may stay open.
  server.headersTimeout = 20_000;
  server.requestTimeout = 60_000;
  await listen(server, options);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the HTTP server has no port");
  return {
    port: address.port,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, { host, port }: HttpOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenFault(error, `${host}:${port}`)));
    server.listen(port, host, resolve);
  });
}

function listenFault(error: unknown, address: string): unknown {
  const inUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  if (!inUse) return faultFromErrno(error, address);
  return new Fault("ALREADY_EXISTS", `another program listens on ${address}`, {
    hint: "end it, or use --http HOST:PORT",
    details: { field: "http", actual: address },
    cause: error,
  });
}

function notFound(request: Request): Response {
  const { pathname } = new URL(request.url);
  const fault = new Fault("NOT_FOUND", `nothing is served at ${pathname.slice(0, 100)}`, {
    hint: "MCP is at /mcp",
  });
  return Response.json({ error: toFaultJson(fault) }, { status: 404 });
}
