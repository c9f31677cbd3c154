import { createHash } from "node:crypto";
import { connect, createServer } from "node:net";
import { ScalarType, type DescMessage } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import {
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
} from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "./open-link.ts";

const kib = 1024;
const mib = 1024 * kib;

/** A line to `port` that counts the bytes of each connection, both ways. */
async function startCountingLine(
  port: number,
): Promise<{ port: number; bytes: number[]; open: () => number } & AsyncDisposable> {
  const bytes: number[] = [];
  let open = 0;
  const server = createServer((near) => {
    const at = bytes.push(0) - 1;
    open += 1;
    const far = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on("data", (data: Buffer) => {
        bytes[at] = (bytes[at] ?? 0) + data.byteLength;
      });
      from.on("error", () => void to.destroy());
      from.pipe(to);
    }
    near.on("close", () => {
      open -= 1;
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : 0,
    bytes,
    open: () => open,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

/** Bytes that repeat nowhere near: `size` of them from `at` on. */
function bytesAt(at: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let index = 0; index < size; index += 4) {
    const word = ((at + index) * 2_654_435_761) >>> 0;
    bytes.writeUInt8(word >>> 24, index);
    for (let more = 1; more < 4 && index + more < size; more += 1)
      bytes.writeUInt8((word >>> (8 * more)) & 0xff, index + more);
  }
  return bytes;
}

function* pieces(total: number, pieceBytes: number): Generator<Buffer> {
  for (let at = 0; at < total; at += pieceBytes) yield bytesAt(at, Math.min(pieceBytes, total - at));
}

function digestOf(chunks: Iterable<Uint8Array>): string {
  const hash = createHash("sha256");
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest("hex");
}

/** The names of all fields of bytes below a message. */
function bytesFieldsOf(schema: DescMessage, seen: Set<string> = new Set()): string[] {
  if (seen.has(schema.typeName)) return [];
  seen.add(schema.typeName);
  return schema.fields.flatMap((field) => {
    if (field.message) return bytesFieldsOf(field.message, seen);
    return field.scalar === ScalarType.BYTES ? [`${schema.typeName}.${field.name}`] : [];
  });
}

const services = [
  serve(Files, {
    stat: async ({ path }) => ({ entry: { path } }),
    read: async function* ({ length, offset }) {
      for (const value of pieces(Number(length), Number(offset))) yield { part: { case: "chunk", value } };
    },
    write: async (requests) => {
      const hash = createHash("sha256");
      let sizeBytes = 0;
      for await (const { part } of requests) {
        if (part.case !== "chunk") continue;
        hash.update(part.value);
        sizeBytes += part.value.byteLength;
      }
      return { entry: { sizeBytes: BigInt(sizeBytes), digest: hash.digest("hex") } };
    },
  }),
];

proves(
  "link.messages-arrive-whole",
  "bodies of every size arrive whole, large ones beside the control connection",
  { timeout: 120_000 },
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ clock });
    await using line = await startCountingLine(gateway.server.port);
    await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${line.port}`], services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    await files.stat({});

    const sizes: [number, number][] = [
      [64 * kib - 1, 64 * kib - 1],
      [64 * kib, 64 * kib],
      [64 * kib + 1, 64 * kib + 1],
      [100 * mib, 256 * kib],
      [100 * mib, 4 * mib - 16],
    ];
    for (const [total, pieceBytes] of sizes) {
      const bulk = total >= mib;
      const expected = digestOf(pieces(total, pieceBytes));
      const hash = createHash("sha256");
      for await (const { part } of files.read(
        { length: BigInt(total), offset: BigInt(pieceBytes) },
        { bulk },
      )) {
        if (part.case === "chunk") hash.update(part.value);
      }
      expect(hash.digest("hex")).toBe(expected);
      async function* upload() {
        for (const value of pieces(total, pieceBytes)) yield { part: { case: "chunk" as const, value } };
      }
      const { entry } = await files.write(upload(), { bulk });
      expect(entry).toMatchObject({ sizeBytes: BigInt(total), digest: expected });
      expect(line.open()).toBe(bulk ? 2 : 1);
    }

    // Twice 200 MiB went over the bulk connection, next to nothing over the other, and no message of a control stream has
    // a field that could hold a byte of them.
    const [controlBytes = 0, bulkBytes = 0] = line.bytes;
    expect(controlBytes).toBeLessThan(mib);
    expect(bulkBytes).toBeGreaterThan(400 * mib);
    for (const schema of [NodeLinkControlRequestSchema, NodeLinkControlResponseSchema]) {
      expect(bytesFieldsOf(schema)).toEqual([]);
    }
    expect(gateway.server.connectionCount).toBe(2);
    expect(gateway.host.links.find("devbox")).toBe(link);
    for (let seconds = 0; seconds < 60; seconds += 5) {
      expect(gateway.server.connectionCount).toBe(2);
      await clock.advance(5000);
      await expect
        .poll(() => clock.now() - gateway.host.links.presence("devbox").lastSeenMs)
        .toBeLessThan(10_001);
    }
    await clock.advance(1000);
    await expect.poll(() => gateway.server.connectionCount).toBe(1);
    expect(gateway.host.links.find("devbox")).toBe(link);
    const again = await Array.fromAsync(files.read({ length: BigInt(mib), offset: 65_536n }, { bulk: true }));
    expect(again).toHaveLength(16);
    expect(gateway.server.connectionCount).toBe(2);
  },
);
