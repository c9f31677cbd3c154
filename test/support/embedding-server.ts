import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readToLimit } from "../../shared/flow/read-to-limit.ts";

/** A call that was made of the server. */
export interface EmbeddingCall {
  readonly texts: readonly string[];
  readonly model: string;
  /** The `Authorization` header; empty without one. */
  readonly authorization: string;
  /** Says when the caller gave up. */
  readonly isGone: boolean;
}

/** What the server does with the next calls instead of answering. */
export type EmbeddingFault =
  /** Answers with a status and headers; the body repeats what was sent. */
  | { readonly kind: "status"; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  /** Never answers. */
  | { readonly kind: "silent" }
  /** Answers with what is made of the right rows. */
  | { readonly kind: "rows"; readonly change: (rows: readonly EmbeddingRow[]) => unknown };

/** A row of an answer. */
export interface EmbeddingRow {
  readonly index: number;
  readonly embedding: readonly number[];
}

/** An embedding server of the OpenAI kind over real HTTP; its vectors depend on the words of a text alone. */
export interface EmbeddingServer extends AsyncDisposable {
  /** The address before `/embeddings`. */
  readonly baseUrl: string;
  readonly calls: readonly EmbeddingCall[];
  /** Every text that was answered with a vector, in order. */
  readonly embedded: readonly string[];
  /** Most calls that were open at once. */
  readonly mostOpen: number;
  /** What is done with calls from now on; undefined: they are answered. */
  fault: EmbeddingFault | undefined | ((call: EmbeddingCall) => EmbeddingFault | undefined);
  /** Called before each answer, which waits for it. */
  before: ((call: EmbeddingCall) => Promise<void> | void) | undefined;
  /** Numbers of a vector. */
  dimensions: number;
}

/** Starts the server on a free loopback port. */
export async function startEmbeddingServer(
  options: { readonly dimensions?: number } = {},
): Promise<EmbeddingServer> {
  const calls: EmbeddingCall[] = [];
  const embedded: string[] = [];
  /** Left as the answer begins: whoever has it may call again before its end is noticed here. */
  const opened = new Set<ServerResponse>();
  let mostOpen = 0;
  const http = createServer((request, response) => {
    opened.add(response);
    mostOpen = Math.max(mostOpen, opened.size);
    response.once("close", () => void opened.delete(response));
    void answer(request, response).catch(() => response.destroy());
  });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = (await readToLimit(request, 16_777_216)).toString("utf8");
    const call = toCall(request, response, body);
    calls.push(call);
    await server.before?.(call);
    const fault = typeof server.fault === "function" ? server.fault(call) : server.fault;
    if (fault?.kind === "silent") return;
    opened.delete(response);
    if (request.url !== "/v1/embeddings") return void response.writeHead(404).end();
    if (fault?.kind === "status") {
      response.writeHead(fault.status, fault.headers ?? {});
      return void response.end(JSON.stringify({ error: { message: `${call.authorization} sent ${body}` } }));
    }
    if (!fault) embedded.push(...call.texts);
    const rows = call.texts.map((text, index) => ({
      index,
      embedding: toTestVector(text, server.dimensions, call.model),
    }));
    response.writeHead(200, { "content-type": "application/json" });
    const answered = { object: "list", model: call.model, data: fault?.change(rows) ?? rows };
    // As other languages write what JSON has no word for.
    response.end(JSON.stringify(answered).replaceAll(/"(NaN|1e999)"/g, "$1"));
  };
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  const { port } = http.address() as AddressInfo;
  const server: EmbeddingServer = {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    calls,
    embedded,
    get mostOpen() {
      return mostOpen;
    },
    fault: undefined,
    before: undefined,
    dimensions: options.dimensions ?? 64,
    [Symbol.asyncDispose]: async () => {
      http.closeAllConnections();
      http.close();
      await once(http, "close");
    },
  };
  return server;
}

function toCall(request: IncomingMessage, response: ServerResponse, body: string): EmbeddingCall {
  const { input: texts, model } = JSON.parse(body) as { input: string[]; model: string };
  return {
    texts,
    model,
    authorization: request.headers.authorization ?? "",
    get isGone() {
      return response.destroyed && !response.writableFinished;
    },
  };
}

const word = /[\p{L}\p{N}]+/gu;
/** Words that mean the same to the test's model. */
const meanings: Readonly<Record<string, string>> = { automobile: "car", vehicle: "car", feline: "cat" };

/** The vector of a text: each word turns one number, so that texts of the same words are near. */
export function toTestVector(text: string, dimensions: number, model = ""): readonly number[] {
  const vector = Array.from({ length: dimensions }, () => 0.001);
  for (const found of text.toLowerCase().match(word) ?? []) {
    const known = meanings[found] ?? found;
    const at = hashOf(`${model} ${known}`) % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  return vector;
}

function hashOf(text: string): number {
  let hash = 2_166_136_261;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 16_777_619) >>> 0;
  return hash;
}
