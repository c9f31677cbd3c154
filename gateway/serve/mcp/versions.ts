/** The revisions of MCP that are served, newest first. */
export const mcpVersions = ["2026-07-28", "2025-11-25"] as const;

const unsupportedVersion = -32_022;

interface Message {
  readonly id?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}

/**
 * `message` with both revisions where it lists the supported ones: the library names only those that it serves without
 * a handshake, in its answer to `server/discover` and in its error for another version.
 */
export function nameAllVersions<T>(message: T): T {
  if (typeof message !== "object" || message === null) return message;
  const { result, error } = message as Message;
  if (isObject(result) && Array.isArray(result["supportedVersions"])) {
    return { ...message, result: { ...result, supportedVersions: [...mcpVersions] } };
  }
  if (!isObject(error) || error["code"] !== unsupportedVersion || !isObject(error["data"])) return message;
  return { ...message, error: { ...error, data: { ...error["data"], supported: [...mcpVersions] } } };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
