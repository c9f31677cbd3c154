import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { programFile } from "./program-file.ts";
import { startGateway, type StartGatewayOptions, type TestGateway } from "./start-gateway.ts";
import { startNode, type TestNode } from "./start-node.ts";
import { makeTempWorkspace, type TempWorkspace, type TreeOfFiles } from "./temp-workspace.ts";

/** A revision of MCP: the one without a handshake, and the one before it. */
export type McpEra = "modern" | "legacy";

/** A gateway, a node with the writable workspace `app`, and an open session on it with a token; all real programs. */
export interface SessionHouse extends AsyncDisposable {
  readonly gateway: TestGateway;
  readonly node: TestNode;
  readonly workspace: TempWorkspace;
  readonly sessionId: string;
  readonly token: string;
  /** The address of the MCP endpoint. */
  readonly url: URL;
  /** An official client over HTTP; closed with the house. */
  connectHttp(era: McpEra): Promise<Client>;
  /** An official client of `fairlead mcp --session`; closed with the house. */
  connectStdio(era: McpEra): Promise<Client>;
  /** One message over HTTP, with the session's token. */
  post(message: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

/** What a house is made of. */
export interface SessionHouseOptions {
  readonly files?: TreeOfFiles;
  readonly gateway?: StartGatewayOptions;
}

/** The envelope that every message of the newer revision carries. */
export const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "0" },
  "io.modelcontextprotocol/clientCapabilities": {},
} as const;

/** Starts everything; the caller disposes it. */
export async function startSessionHouse(options: SessionHouseOptions = {}): Promise<SessionHouse> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway(options.gateway ?? {}));
  const workspace = stack.use(await makeTempWorkspace(options.files ?? {}));
  const node = stack.use(
    await startNode({ gateway, profile: "full", exec: "full", workspaces: { app: `${workspace.path}:rw` } }),
  );
  const opened = await gateway.json(["sessions", "open", "--agent", "coder", "--workspace", "devbox:/app"]);
  const sessionId = textOf(opened, "id");
  const token = textOf(await gateway.json(["tokens", "create", "--session", sessionId]), "text", "token");
  const url = new URL(`${gateway.http}/mcp`);
  const authorization = { Authorization: `Bearer ${token}` };
  const owned = stack.move();
  const own = async (client: Client, transport: Parameters<Client["connect"]>[0]): Promise<Client> => {
    await client.connect(transport);
    owned.defer(() => client.close());
    return client;
  };
  return {
    gateway,
    node,
    workspace,
    sessionId,
    token,
    url,
    connectHttp: (era) =>
      own(
        makeClient(era),
        new StreamableHTTPClientTransport(url, { requestInit: { headers: authorization } }),
      ),
    connectStdio: (era) =>
      own(
        makeClient(era),
        new StdioClientTransport({
          command: process.execPath,
          args: [programFile, "mcp", "--session", sessionId],
          env: { PATH: process.env["PATH"] ?? "", HOME: gateway.home, FAIRLEAD_HOME: gateway.home },
          stderr: "ignore",
        }),
      ),
    post: (message, headers = {}) =>
      fetch(url, {
        method: "POST",
        headers: {
          ...authorization,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
        },
        body: typeof message === "string" ? message : JSON.stringify(message),
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function makeClient(era: McpEra): Client {
  const info = { name: "test", version: "0" };
  return era === "legacy"
    ? new Client(info)
    : new Client(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
}

function textOf(value: unknown, ...names: readonly string[]): string {
  if (typeof value === "object" && value !== null) {
    for (const name of names) {
      const found: unknown = Object.entries(value).find(([key]) => key === name)?.[1];
      if (typeof found === "string") return found;
    }
  }
  throw new Error(`there is no ${names.join(" or ")} in ${JSON.stringify(value)}`);
}
