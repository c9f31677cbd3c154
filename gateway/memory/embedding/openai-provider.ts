import { errnoOf } from "../../../shared/fault/fault-from-errno.ts";
import { Fault, isFault } from "../../../shared/fault/fault.ts";
import { readToLimit } from "../../../shared/flow/read-to-limit.ts";
import { type Clock, startDeadline } from "../../../shared/lifetime/clock.ts";
import { createCallGate } from "./call-gate.ts";
import { checkVectors } from "./check-vectors.ts";
import type { EmbeddingProvider, EmbedOptions } from "./embedding-provider.ts";
import type { EmbeddingSettings } from "./embedding-settings.ts";
import { readRetryAfterMs } from "./retry-after.ts";

/** Largest answer that is read, in bytes. */
const maxAnswerBytes = 67_108_864;

/** A provider that speaks the OpenAI way of embeddings: OpenAI, Ollama, LM Studio, vLLM and others. */
export function createOpenAiProvider(settings: EmbeddingSettings, clock: Clock): EmbeddingProvider {
  const { kind, model, baseUrl, maxCalls, callsPerMinute, batchTexts } = settings;
  const gate = createCallGate({ maxCalls, callsPerMinute, clock });
  let dimensions = settings.dimensions;
  const identity = [kind, baseUrl, model, ...(dimensions === undefined ? [] : [dimensions])].join(" ");
  const embed = async (
    texts: readonly string[],
    { signal }: EmbedOptions,
  ): Promise<readonly Float32Array[]> => {
    using deadline = startDeadline({
      timeoutMs: settings.timeoutMs,
      signal,
      clock,
      fault: () => timedOut(settings.timeoutMs),
    });
    const answer = await ask(settings, texts, { signal: deadline.signal, now: () => clock.now() });
    const vectors = checkVectors(answer, { texts: texts.length, dimensions });
    // The first good answer says how long vectors are; a later one of another length is of another model.
    dimensions ??= vectors[0]?.length;
    return vectors;
  };
  return {
    kind,
    model,
    identity,
    maxCalls,
    batchTexts,
    embed: (texts, options) =>
      texts.length === 0
        ? Promise.resolve([])
        : gate.enter(options.urgency, options.signal, () => embed(texts, options)),
  };
}

interface Asking {
  readonly signal: AbortSignal;
  readonly now: () => number;
}

async function ask(
  settings: EmbeddingSettings,
  texts: readonly string[],
  { signal, now }: Asking,
): Promise<readonly (readonly number[])[]> {
  const { model, dimensions, apiKey } = settings;
  const body = { model, input: texts, encoding_format: "float", ...(dimensions ? { dimensions } : {}) };
  try {
    const response = await fetch(`${settings.baseUrl}/embeddings`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      body: JSON.stringify(body),
      // The key is for the address that was configured, and for no other.
      redirect: "error",
      signal,
    });
    if (!response.ok) {
      // What a provider says may repeat what was sent to it, the key among it: only its status is told.
      await response.body?.cancel();
      throw toStatusFault(response, now());
    }
    const bytes = response.body ? await readToLimit(response.body, maxAnswerBytes) : Buffer.alloc(0);
    return readVectors(bytes);
  } catch (error) {
    signal.throwIfAborted();
    if (isFault(error)) throw error;
    throw unreachable(error);
  }
}

function readVectors(bytes: Buffer): readonly (readonly number[])[] {
  const rows = dataOf(parse(bytes)).map((row, at) => ({ index: indexOf(row, at), vector: vectorOf(row) }));
  return rows.toSorted((a, b) => a.index - b.index).map(({ vector }) => vector);
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw unreadable();
  }
}

function dataOf(answer: unknown): readonly unknown[] {
  if (typeof answer !== "object" || answer === null || !("data" in answer)) throw unreadable();
  if (!Array.isArray(answer.data)) throw unreadable();
  return answer.data;
}

function indexOf(row: unknown, at: number): number {
  if (typeof row !== "object" || row === null || !("index" in row)) return at;
  return typeof row.index === "number" ? row.index : at;
}

function vectorOf(row: unknown): readonly number[] {
  if (typeof row !== "object" || row === null || !("embedding" in row)) throw unreadable();
  if (!Array.isArray(row.embedding)) throw unreadable();
  // JSON has no NaN: what is no number here becomes one, and is refused with the rest of the answer.
  return row.embedding.map((number: unknown) => (typeof number === "number" ? number : Number.NaN));
}

function unreadable(): Fault {
  return new Fault("INTEGRITY_FAILURE", "the embedding provider's answer holds no vectors", {
    details: { reason: "embedding_vectors", field: "data" },
    hint: "check `embeddings.baseUrl` in the gateway's configuration",
  });
}

function timedOut(timeoutMs: number): Fault {
  return new Fault("DEADLINE_EXCEEDED", `the embedding provider did not answer within ${timeoutMs} ms`, {
    details: { limit: timeoutMs },
  });
}

function toStatusFault(response: Response, nowMs: number): Fault {
  const { status } = response;
  const retryAfterMs = readRetryAfterMs(response.headers.get("retry-after"), nowMs);
  const details = { actual: status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  const said = `the embedding provider answered ${status}`;
  if (status === 429) return new Fault("RATE_LIMITED", `${said}: too many calls`, { details });
  if (status === 401 || status === 403) {
    return new Fault("IO_ERROR", `${said}: it refuses the key`, {
      details: { ...details, reason: "embedding_refused" },
      hint: "check FAIRLEAD_EMBEDDINGS_KEY or `embeddings.apiKeyFile`",
    });
  }
  if (status === 400 || status === 413 || status === 422) {
    return new Fault("INVALID_ARGUMENT", `${said}: it refuses these texts`, { details });
  }
  return new Fault("IO_ERROR", said, { details: { ...details, reason: "embedding_failed" } });
}

/** What led here is told by its code alone: its text may repeat what was to be sent. */
function unreachable(error: unknown): Fault {
  const errno = error instanceof Error ? errnoOf(error.cause) : undefined;
  const how = errno === undefined ? "" : `: ${errno}`;
  return new Fault("IO_ERROR", `the embedding provider cannot be reached${how}`, {
    details: { reason: "embedding_unreachable", ...(errno === undefined ? {} : { errno }) },
    hint: "check that it runs, and `embeddings.baseUrl` in the gateway's configuration",
  });
}
