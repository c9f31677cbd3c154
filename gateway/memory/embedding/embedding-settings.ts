/** Kinds of embedding providers. Each but `none` speaks the OpenAI way of `POST /embeddings`. */
export const embeddingKinds = ["none", "openai", "ollama", "lmstudio", "vllm", "compatible"] as const;

/** A kind of embedding provider. */
export type EmbeddingKind = (typeof embeddingKinds)[number];

/** Where vectors come from, with every value in place. */
export interface EmbeddingSettings {
  readonly kind: Exclude<EmbeddingKind, "none">;
  /** The address before `/embeddings`, without a slash at its end. */
  readonly baseUrl: string;
  readonly model: string;
  /** How many numbers a vector is asked to have; undefined: as many as the model gives. */
  readonly dimensions: number | undefined;
  /** The secret that is sent as a bearer token; undefined: none. */
  readonly apiKey: string | undefined;
  /** Most calls that are open at once. */
  readonly maxCalls: number;
  /** Most calls begun in a minute; undefined: as many as there are. */
  readonly callsPerMinute: number | undefined;
  /** Most texts of one call. */
  readonly batchTexts: number;
  /** How long one call may take, in milliseconds. */
  readonly timeoutMs: number;
}

/** Where vectors come from, but for the key: it is read when the gateway starts, and stands in no settings. */
export type EmbeddingSource = Omit<EmbeddingSettings, "apiKey"> & {
  /** Absolute. */
  readonly apiKeyFile: string | undefined;
};

/** What is taken of a kind when the configuration says nothing else. */
export interface EmbeddingDefaults {
  /** Undefined: it must be said. */
  readonly baseUrl: string | undefined;
  /** Undefined: it must be said. */
  readonly model: string | undefined;
  readonly maxCalls: number;
  readonly timeoutMs: number;
}

const hosted = { maxCalls: 4, timeoutMs: 120_000 };
/** A model on one's own machine computes one call after the other, and may first have to be loaded. */
const local = { model: undefined, maxCalls: 1, timeoutMs: 600_000 };

/** Defaults of each kind. */
export const embeddingDefaults: Readonly<Record<Exclude<EmbeddingKind, "none">, EmbeddingDefaults>> = {
  openai: { baseUrl: "https://api.openai.com/v1", model: "text-embedding-3-small", ...hosted },
  ollama: { baseUrl: "http://127.0.0.1:11434/v1", ...local },
  lmstudio: { baseUrl: "http://127.0.0.1:1234/v1", ...local },
  vllm: { baseUrl: "http://127.0.0.1:8000/v1", ...local, maxCalls: 4 },
  compatible: { baseUrl: undefined, model: undefined, ...hosted },
};

/** Texts of one call when the configuration says nothing else. */
export const defaultBatchTexts = 64;
