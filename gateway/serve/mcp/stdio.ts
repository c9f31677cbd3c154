import { Transform, type Readable, type Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { JSONRPCMessage, Server } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { isFault } from "../../../shared/fault/fault.ts";
import { createBackoff } from "../../../shared/lifetime/backoff.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";
import type { FaceChange, SessionFace } from "../../sessions/face.ts";
import { bodyLimits, measureDepth } from "./body.ts";
import { sendNotices, type ListNotices } from "./notices.ts";
import { createMcpServer } from "./server.ts";
import { nameAllVersions } from "./versions.ts";

/** What MCP over standard streams takes. */
export interface McpStdioOptions {
  readonly input: Readable;
  readonly output: Writable;
  readonly version: string;
  readonly clock: Clock;
  /** Ends it as the end of input does. */
  readonly signal: AbortSignal;
}

/**
 * Serves one client over standard streams until its input ends; then its calls are cancelled. A line that is no message
 * is answered with -32700, and the next one is served.
 */
export async function serveMcpStdio(face: SessionFace, options: McpStdioOptions): Promise<void> {
  await using scope = new Scope("MCP over standard streams", options.signal);
  const servers = new Set<Server>();
  const lines = new MessageLines((message) => writeLine(options.output, message));
  options.input.pipe(lines);
  const transport = new PatchedTransport(lines, options.output);
  const factory = (): Server => {
    const server = createMcpServer({ face, version: options.version, clock: options.clock });
    servers.add(server);
    return server;
  };
  const ended = Promise.withResolvers<void>();
  const handle = serveStdio(factory, { transport });
  scope.defer(() => handle.close());
  const tell = (send: (server: Server) => Promise<void>): void => {
    for (const server of servers) void send(server).catch(() => undefined);
  };
  const notices = {
    toolsChanged: () => tell((server) => server.sendToolListChanged()),
    resourcesChanged: () => tell((server) => server.sendResourceListChanged()),
  };
  scope.spawn("notices", (signal) => watchForEver(face, { notices, clock: options.clock, signal }));
  lines.once("close", () => ended.resolve());
  lines.once("end", () => ended.resolve());
  scope.signal.addEventListener("abort", () => ended.resolve(), { once: true });
  await ended.promise;
  options.input.unpipe(lines);
}

interface WatchParts {
  readonly notices: ListNotices;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Watches on after a gateway was away, and tells what has changed meanwhile; ends when the session is closed. */
async function watchForEver(face: SessionFace, parts: WatchParts): Promise<void> {
  const { clock, signal, notices } = parts;
  const backoff = createBackoff({ firstMs: 500, maxMs: 30_000 });
  let before: Digests = (await readDigests(face, signal)) ?? {};
  const note = (change: FaceChange): void => {
    before = { ...before, [change.kind]: change.digest };
  };
  while (!signal.aborted) {
    const fault = await sendNotices(noting(face.changes({ signal }), note), parts).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (isFault(fault, "NOT_FOUND")) return;
    await clock.sleep(backoff.next(), { signal });
    const now = await readDigests(face, signal);
    if (!now) continue;
    backoff.reset();
    if (before.tools !== now.tools) notices.toolsChanged();
    if (before.skills !== now.skills) notices.resourcesChanged();
    before = now;
  }
}

interface Digests {
  readonly tools?: string;
  readonly skills?: string;
}

async function* noting(
  changes: AsyncIterable<FaceChange>,
  note: (change: FaceChange) => void,
): AsyncGenerator<FaceChange> {
  for await (const change of changes) {
    note(change);
    yield change;
  }
}

async function readDigests(face: SessionFace, signal: AbortSignal): Promise<Digests | undefined> {
  try {
    const [{ surface }, { snapshot }] = await Promise.all([
      face.listTools({ signal }),
      face.listSkills({ signal }),
    ]);
    return { tools: surface, skills: snapshot };
  } catch {
    // The gateway is away: asked again with the next turn.
    return undefined;
  }
}

function writeLine(output: Writable, message: unknown): void {
  output.write(`${JSON.stringify(message)}\n`);
}

class PatchedTransport extends StdioServerTransport {
  override send(message: JSONRPCMessage): Promise<void> {
    return super.send(nameAllVersions(message));
  }
}

/** Passes whole lines that are JSON of bounded size and depth, and has every other one answered. */
class MessageLines extends Transform {
  readonly #decoder = new StringDecoder("utf8");
  readonly #refuse: (message: unknown) => void;
  #rest = "";
  /** The line at hand is over the limit already: the rest of it is thrown away. */
  #skipping = false;

  constructor(refuse: (message: unknown) => void) {
    super();
    this.#refuse = refuse;
  }

  override _transform(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    const [first = "", ...lines] = this.#decoder.write(chunk).split("\n");
    this.#take(first);
    for (const line of lines) {
      this.#finish();
      this.#take(line);
    }
    done();
  }

  override _flush(done: (error?: Error | null) => void): void {
    if (this.#rest !== "") this.#finish();
    done();
  }

  #take(text: string): void {
    if (this.#skipping) return;
    this.#rest += text;
    if (this.#rest.length <= bodyLimits.bytes) return;
    this.#skipping = true;
    this.#rest = "";
  }

  #finish(): void {
    const line = this.#rest;
    const tooLong = this.#skipping;
    this.#rest = "";
    this.#skipping = false;
    if (tooLong) this.#answer(-32_600, `a message has at most ${bodyLimits.bytes} bytes`);
    else if (line.trim() === "") return;
    else if (measureDepth(line) > bodyLimits.depth)
      this.#answer(-32_600, `a message has at most ${bodyLimits.depth} levels`);
    else if (!isMessage(line)) this.#answer(-32_700, "the line is no JSON-RPC message");
    else this.push(`${line}\n`);
  }

  #answer(code: number, message: string): void {
    this.#refuse({ jsonrpc: "2.0", id: null, error: { code, message } });
  }
}

function isMessage(line: string): boolean {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null && "jsonrpc" in parsed && parsed.jsonrpc === "2.0";
  } catch {
    return false;
  }
}
