import { digestOf, isDigest } from "../../shared/content/digest.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";

/** Something that happened, or was refused. It holds no secret: no code, token, password, argument or content. */
export interface AuditEntry {
  /** Who did it: `user:NAME`, `agent:NAME`, `node:ID` or `gateway`. */
  readonly actor: string;
  /** Where it came from: an address, or `local`. */
  readonly address?: string;
  /** What was done, as a noun and a verb: `nodes.rename`. */
  readonly action: string;
  /** What it was done to, as kind and name: `node:3f…`. */
  readonly target: string;
  /** `ok`, or the code of the fault, or another word that the action defines, such as `late`. */
  readonly outcome: string;
  /** What stood before; absent when nothing did. */
  readonly before?: JsonValue;
  /** What stands now; absent when nothing does. */
  readonly after?: JsonValue;
  /** Id of the node that it concerns. */
  readonly nodeId?: string;
  /** Id of the session that it belongs to. */
  readonly sessionId?: string;
  /** Id of the call that it belongs to. */
  readonly callId?: string;
  /** What else explains it. */
  readonly details?: JsonValue;
}

/** An entry with its place in the record. */
export interface AuditRecord extends AuditEntry {
  /** From 1, without a gap. */
  readonly sequence: number;
  /** RFC 3339, UTC. */
  readonly time: string;
}

/** A line of the record, and what the next one names as its forerunner. */
export interface AuditLine {
  readonly text: string;
  /** Digest of the line without its own digest. */
  readonly hash: string;
}

/** Where a line stands. */
export interface AuditPlace {
  readonly sequence: number;
  readonly timeMs: number;
  /** The hash of the line before; `firstForerunner` for the first. */
  readonly previous: string;
}

/** What the first line of all names as its forerunner. */
export const firstForerunner: string = `sha256:${"0".repeat(64)}`;

/** The longest text of one value, in characters; the rest is cut, and an ellipsis says so. */
export const maxAuditTextLength = 1_000;

/** The most values of a list or an object that one record keeps. */
const maxAuditItems = 100;

const maxDepth = 6;

/** An entry as a line of the chain. */
export function formatAuditLine(entry: AuditEntry, place: AuditPlace): AuditLine {
  const { actor, address, action, target, outcome, before, after } = entry;
  const { nodeId, sessionId, callId, details } = entry;
  const body = JSON.stringify(
    bound({
      sequence: place.sequence,
      time: new Date(place.timeMs).toISOString(),
      actor,
      address,
      action,
      target,
      outcome,
      nodeId,
      sessionId,
      callId,
      before,
      after,
      details,
      previous: place.previous,
    }),
  );
  const hash = digestOf(body);
  return { text: `${body.slice(0, -1)},"hash":"${hash}"}`, hash };
}

/** A line that was read: its record, and its two ends of the chain. */
export interface ReadAuditLine {
  readonly record: AuditRecord;
  readonly previous: string;
  readonly hash: string;
}

const hashEnding = /,"hash":"(sha256:[0-9a-f]{64})"\}$/;

/** A line of the chain, or undefined when it is none, or is not as it was written. */
export function parseAuditLine(text: string): ReadAuditLine | undefined {
  const ending = hashEnding.exec(text);
  const hash = ending?.[1];
  if (!ending || hash === undefined) return undefined;
  const body = `${text.slice(0, ending.index)}}`;
  if (digestOf(body) !== hash) return undefined;
  const value = parseObject(body);
  if (!isRecord(value)) return undefined;
  const { previous, ...record } = value;
  return { record, previous, hash };
}

function parseObject(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is AuditRecord & { readonly previous: string } {
  if (typeof value !== "object" || value === null) return false;
  const { sequence, time, actor, action, target, outcome, previous } = value as Record<string, unknown>;
  const texts = [time, actor, action, target, outcome, previous];
  return (
    Number.isSafeInteger(sequence) &&
    texts.every((text) => typeof text === "string") &&
    isDigest(String(previous))
  );
}

/** A hostile name must neither fill the disk nor nest until nobody can read it. */
function bound(value: unknown, depth = 0): unknown {
  if (typeof value === "string") {
    return value.length <= maxAuditTextLength ? value : `${value.slice(0, maxAuditTextLength)}…`;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth >= maxDepth) return "…";
  if (Array.isArray(value)) return value.slice(0, maxAuditItems).map((item) => bound(item, depth + 1));
  const entries = Object.entries(value).slice(0, maxAuditItems);
  return Object.fromEntries(entries.map(([key, item]) => [key.slice(0, 100), bound(item, depth + 1)]));
}
