/** One entry of an archive. */
export interface TarEntry {
  /** Relative, with `/`. */
  readonly path: string;
  readonly kind: "file" | "folder" | "link";
  /** Permission bits. */
  readonly mode: number;
  /** Modification time in nanoseconds since 1970. */
  readonly modifiedNs: bigint;
  /** Bytes of a file's content, which follows. */
  readonly sizeBytes: number;
  /** Where a link points to. */
  readonly linkTarget?: string;
}

const blockBytes = 512;
const typeFlags = { file: "0", folder: "5", link: "2" } as const;
/** What eleven octal digits can say. */
const largestOctal = 8 ** 11 - 1;

/**
 * What stands before an entry's content: a POSIX header, and before it one of pax records with the name, link, size and
 * time as they really are, where a plain header cannot say them.
 */
export function tarHeader(entry: TarEntry): Buffer {
  const path = entry.kind === "folder" ? `${entry.path}/` : entry.path;
  const records = paxRecords(entry, path);
  const parts: Buffer[] = [];
  if (records.length > 0) {
    const pax = { ...entry, path: "pax", kind: "file", mode: 0o644, linkTarget: "" } as const;
    parts.push(header({ ...pax, sizeBytes: records.length }, { path: "pax", type: "x" }));
    parts.push(records, padding(records.length));
  }
  parts.push(header(entry, { path, type: typeFlags[entry.kind] }));
  return Buffer.concat(parts);
}

/** What fills an entry's content up to a whole block. */
export function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((blockBytes - (sizeBytes % blockBytes)) % blockBytes);
}

/** What stands at the end of an archive. */
export function tarEnd(): Buffer {
  return Buffer.alloc(2 * blockBytes);
}

function paxRecords(entry: TarEntry, path: string): Buffer {
  const said: [string, string][] = [];
  if (!isPlain(path)) said.push(["path", path]);
  if (!isPlain(entry.linkTarget ?? "")) said.push(["linkpath", entry.linkTarget ?? ""]);
  if (entry.sizeBytes > largestOctal) said.push(["size", String(entry.sizeBytes)]);
  const nanos = entry.modifiedNs % 1_000_000_000n;
  if (nanos > 0n) {
    said.push(["mtime", `${entry.modifiedNs / 1_000_000_000n}.${String(nanos).padStart(9, "0")}`]);
  }
  return Buffer.concat(said.map(([key, value]) => paxRecord(key, value)));
}

/** A record begins with its own length, that of the digits included. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`);
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

/** Short, and of characters that mean the same everywhere. */
function isPlain(text: string): boolean {
  return text.length <= 100 && /^[\x20-\x7e]*$/.test(text);
}

function header(entry: TarEntry, { path, type }: { readonly path: string; readonly type: string }): Buffer {
  const block = Buffer.alloc(blockBytes);
  block.write(cut(path), 0, 100, "utf8");
  writeOctal(block, entry.mode & 0o7777, { at: 100, digits: 7 });
  writeOctal(block, 0, { at: 108, digits: 7 });
  writeOctal(block, 0, { at: 116, digits: 7 });
  const sizeBytes = type === "0" || type === "x" ? entry.sizeBytes : 0;
  writeOctal(block, Math.min(sizeBytes, largestOctal), { at: 124, digits: 11 });
  const seconds = Number(entry.modifiedNs / 1_000_000_000n);
  writeOctal(block, Math.max(0, Math.min(seconds, largestOctal)), { at: 136, digits: 11 });
  block.fill(0x20, 148, 156);
  block.write(type, 156, 1, "latin1");
  block.write(cut(entry.linkTarget ?? ""), 157, 100, "utf8");
  block.write("ustar\u000000", 257, 8, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, 8, "latin1");
  return block;
}

/** What has no room stands in the records before. */
function cut(text: string): string {
  return isPlain(text) ? text : text.replace(/[^\x20-\x7e]/g, "_").slice(0, 100);
}

function writeOctal(
  block: Buffer,
  value: number,
  { at, digits }: { readonly at: number; readonly digits: number },
): void {
  block.write(value.toString(8).padStart(digits, "0"), at, digits, "latin1");
}
