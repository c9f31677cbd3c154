import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files, FilesReadRequestSchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { openDirect, openLink, openStdio, type Carrier } from "./carriers.ts";
import { wholeFault } from "./echo-services.ts";

const kinds = { direct: openDirect, link: openLink, stdio: openStdio };

async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof Fault) return error;
  throw new Error("no fault came", { cause: error });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  return Array.fromAsync(items);
}

async function* chunks(
  count: number,
  path = "w",
): AsyncGenerator<{
  part: { case: "header"; value: { path: string } } | { case: "chunk"; value: Uint8Array };
}> {
  yield { part: { case: "header", value: { path } } };
  for (let at = 0; at < count; at += 1) yield { part: { case: "chunk", value: Buffer.alloc(70_000, at) } };
}

for (const [name, open] of Object.entries(kinds)) {
  describe(name, () => {
    let carrier: Carrier;
    beforeAll(async () => {
      carrier = await open();
    });
    afterAll(async () => {
      await carrier[Symbol.asyncDispose]();
    });

    test("carries every kind of call", async () => {
      const files = carrier.client(Files);
      expect((await files.stat({ path: "ä/b" })).entry?.path).toBe("ä/b");
      const parts = await all(files.read(create(FilesReadRequestSchema, { path: "p", length: 700n })));
      expect(parts).toHaveLength(702);
      expect(parts[300]?.part.value).toEqual(Buffer.alloc(1000, 299));
      const written = await files.write(chunks(100));
      expect(written.entry).toMatchObject({ path: "w", sizeBytes: 7_000_000n });
      async function* pings(): AsyncGenerator<{ kind: { case: "ping"; value: { sequence: bigint } } }> {
        for (let at = 0n; at < 50n; at += 1n) yield { kind: { case: "ping", value: { sequence: at } } };
      }
      const pongs = await all(carrier.client(NodeLink).control(pings()));
      expect(pongs.map(({ kind }) => kind.case === "pong" && kind.value.sequence)).toEqual(
        Array.from({ length: 50 }, (_, at) => BigInt(at)),
      );
    });

    test("brings faults over whole", async () => {
      const files = carrier.client(Files);
      const { code, message, hint, retryable, details } = wholeFault();
      const same = { code, message, hint, retryable, details };
      expect(await faultOf(files.stat({ path: "fail" }))).toMatchObject(same);
      expect(await faultOf(all(files.read({ path: "fail", length: 3n })))).toMatchObject(same);
      expect(await faultOf(files.write(chunks(2000, "fail")))).toMatchObject(same);
      const defect = await faultOf(files.stat({ path: "defect" }));
      expect(defect.code).toBe("INTERNAL");
      expect(defect.message).toContain(JSON.stringify(defect.details["traceId"]).slice(1, -1));
      expect(JSON.stringify([defect.message, defect.details])).not.toContain("secret");
    });

    test("fails a message above 4 MiB alone", async () => {
      const files = carrier.client(Files);
      async function* large(): AsyncGenerator<{ part: { case: "chunk"; value: Uint8Array } }> {
        yield { part: { case: "chunk", value: Buffer.alloc(4 * 1024 * 1024) } };
      }
      const fault = await faultOf(files.write(large()));
      expect(fault).toMatchObject({ code: "TOO_LARGE", details: { limit: 4_194_304, actual: 4_194_309 } });
      expect((await files.stat({ path: "next" })).entry?.path).toBe("next");
    });

    test("ends at its deadline, at its caller's wish and for a method that is not served", async () => {
      const files = carrier.client(Files);
      expect(await faultOf(files.stat({ path: "hang" }, { deadlineMs: 200 }))).toMatchObject({
        code: "DEADLINE_EXCEEDED",
      });
      const stop = new AbortController();
      const stopped = faultOf(files.stat({ path: "hang" }, { signal: stop.signal }));
      stop.abort(new Fault("CANCELLED", "no longer needed", { details: { reason: "draining" } }));
      expect(await stopped).toMatchObject({ code: "CANCELLED", details: { reason: "draining" } });
      expect(await faultOf(files.move({}))).toMatchObject({ code: "VERSION_UNSUPPORTED" });
      expect((await files.stat({ path: "id" }, { callId: "abc" })).entry?.linkTarget).toBe("abc");
      expect(await faultOf(files.stat({}, { deadlineMs: 0 }))).toMatchObject({
        details: { field: "deadline" },
      });
    });

    test("leaves a stream early without a trace", async () => {
      for await (const { part } of carrier.client(Files).read({ path: "p", length: 100_000n })) {
        if (part.case === "chunk") break;
      }
      expect((await carrier.client(Files).stat({ path: "after" })).entry?.path).toBe("after");
    });
  });
}
