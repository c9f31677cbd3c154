import type { JsonObject } from "@bufbuild/protobuf";

/** Whether a result is that of a command which failed: it said so, or was ended by a signal or by its time. */
export function isFailedCommand(details: JsonObject): boolean {
  const { exitCode } = details;
  const saidSo = typeof exitCode === "number" && exitCode !== 0;
  return saidSo || details["timedOut"] === true || typeof details["signal"] === "string";
}

/** A piece of what a tool answers to models. */
export type ToolContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly mediaType: string; readonly data: Uint8Array };

/** What a call gives. */
export interface ToolResult {
  /** For models. */
  readonly content: readonly ToolContentPart[];
  /** For programs. */
  readonly details: JsonObject;
}

/** A part of a call as it goes. */
export type CallPart =
  | { readonly kind: "started"; readonly callId: string }
  | { readonly kind: "waiting"; readonly approvalId: string }
  | { readonly kind: "output"; readonly stream: "stdout" | "stderr"; readonly data: Uint8Array }
  | { readonly kind: "result"; readonly result: ToolResult };

/** Bounds of what a call gives. */
export const resultLimits = {
  /** Of text to a model, in bytes. */
  contentBytes: 65_536,
  /** Of details where they are kept, in bytes. */
  keptDetailsBytes: 8_192,
} as const;

/** `content` of at most `limitBytes` of text: beginning and end stay, and the cut says how much is missing. */
export function limitContent(
  content: readonly ToolContentPart[],
  limitBytes: number,
): readonly ToolContentPart[] {
  const sizes = content.map((part) =>
    part.type === "text" ? Buffer.byteLength(part.text) : part.data.byteLength,
  );
  const totalBytes = sizes.reduce((sum, size) => sum + size, 0);
  if (totalBytes <= limitBytes) return content;
  const kept: ToolContentPart[] = [];
  let room = limitBytes;
  for (const [index, part] of content.entries()) {
    const size = sizes[index] ?? 0;
    if (size <= room) kept.push(part);
    else if (part.type === "text")
      kept.push({ type: "text", text: cutText(part.text, { limitBytes: room, totalBytes }) });
    room = Math.max(0, room - size);
    if (room === 0) break;
  }
  return kept;
}

function cutText(text: string, sizes: { readonly limitBytes: number; readonly totalBytes: number }): string {
  const note = `\n[… cut: the whole result has ${sizes.totalBytes} bytes …]\n`;
  const room = sizes.limitBytes - Buffer.byteLength(note);
  if (room <= 0) return note.slice(0, Math.max(0, sizes.limitBytes));
  const bytes = Buffer.from(text, "utf8");
  const headBytes = Math.floor((room * 3) / 4);
  const head = wholeCharacters(bytes.subarray(0, headBytes), "end");
  const tail = wholeCharacters(bytes.subarray(bytes.byteLength - (room - headBytes)), "start");
  return `${head}${note}${tail}`;
}

/** Text of bytes that were cut anywhere, without the broken character at the cut. */
function wholeCharacters(bytes: Buffer, cut: "start" | "end"): string {
  const isInner = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80;
  let start = 0;
  let end = bytes.byteLength;
  if (cut === "start") while (start < end && isInner(bytes[start])) start += 1;
  if (cut === "end") {
    let at = end - 1;
    while (at >= 0 && isInner(bytes[at])) at -= 1;
    if (at >= 0 && end - at < sequenceLength(bytes[at] ?? 0)) end = at;
  }
  return bytes.subarray(start, end).toString("utf8");
}

function sequenceLength(first: number): number {
  if (first < 0xc0) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

const stableKeys = [
  "status",
  "ok",
  "success",
  "error",
  "exitCode",
  "signal",
  "timedOut",
  "durationMs",
  "cwd",
  "path",
  "digest",
  "sizeBytes",
  "stdoutBytes",
  "stderrBytes",
  "stdoutTruncated",
  "stderrTruncated",
  "truncated",
  "cursor",
];

/** `details` of at most `limitBytes` as JSON: what is larger becomes a summary of stable fields that says so. */
export function limitDetails(details: JsonObject, limitBytes: number): JsonObject {
  const sizeBytes = Buffer.byteLength(JSON.stringify(details));
  if (sizeBytes <= limitBytes) return details;
  const summary: JsonObject = { persistedDetailsTruncated: true, originalBytes: sizeBytes };
  for (const key of stableKeys) {
    const value = details[key];
    if (value === undefined || (typeof value === "object" && value !== null)) continue;
    summary[key] = typeof value === "string" ? value.slice(0, 500) : value;
    if (Buffer.byteLength(JSON.stringify(summary)) > limitBytes) delete summary[key];
  }
  return summary;
}
