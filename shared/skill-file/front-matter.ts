import { isUtf8 } from "node:buffer";
import type { Diagnostic } from "./diagnostic.ts";
import { maxFrontMatterBytes } from "./limits.ts";

/** An instruction file, cut where its front matter ends. */
export interface SplitFile {
  /** The YAML between the two `---` lines. */
  readonly yaml: string;
  /** The line of the file on which `yaml` begins, from 1. */
  readonly firstLine: number;
  /** The bytes behind the closing line, unchanged. */
  readonly body: Buffer;
}

const newline = 0x0a;

/** Cuts `bytes` at its `---` lines. A file without both, or one that is no UTF-8, gives the diagnostic instead. */
export function splitFrontMatter(bytes: Buffer): SplitFile | Diagnostic {
  if (!isUtf8(bytes)) return notUtf8(bytes);
  const start = bytes.subarray(0, 3).equals(Buffer.of(0xef, 0xbb, 0xbf)) ? 3 : 0;
  const opening = readLine(bytes, start);
  if (opening.text !== "---")
    return broken(
      1,
      "the file does not begin with a --- line",
      "put a --- line first, then name and description, then another --- line",
    );
  let at = opening.next;
  while (at < bytes.length && at - start <= maxFrontMatterBytes) {
    const line = readLine(bytes, at);
    if (line.text === "---") {
      return {
        yaml: bytes.toString("utf8", opening.next, at),
        firstLine: 2,
        body: bytes.subarray(line.next),
      };
    }
    at = line.next;
  }
  if (at < bytes.length)
    return broken(
      1,
      `the front matter is longer than ${maxFrontMatterBytes} bytes`,
      "move text from the front matter into the body, or add the closing --- line",
    );
  return broken(1, "the front matter has no closing --- line", "add a --- line behind the last field");
}

/** Whether `split` is the diagnostic. */
export function isDiagnostic(split: SplitFile | Diagnostic): split is Diagnostic {
  return "severity" in split;
}

interface Line {
  /** Without its end and without spaces behind it; only the first bytes of a long one. */
  readonly text: string;
  /** Where the next line begins. */
  readonly next: number;
}

function readLine(bytes: Buffer, at: number): Line {
  const end = bytes.indexOf(newline, at);
  const stop = end < 0 ? bytes.length : end;
  // A fence is short: of any longer line the first bytes tell that it is none, and whitespace may still follow them.
  const text = stop - at <= 256 ? bytes.toString("latin1", at, stop).trimEnd() : "(long)";
  return { text, next: end < 0 ? bytes.length : end + 1 };
}

function notUtf8(bytes: Buffer): Diagnostic {
  let line = 1;
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(newline, at);
    const next = end < 0 ? bytes.length : end + 1;
    if (!isUtf8(bytes.subarray(at, next))) break;
    line += 1;
    at = next;
  }
  return broken(line, "the file is not valid UTF-8", "save the file as UTF-8");
}

function broken(line: number, message: string, hint: string): Diagnostic {
  return { severity: "error", line, message, hint };
}
