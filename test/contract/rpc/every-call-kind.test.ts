import { toJson, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Fault, toFaultJson } from "../../../shared/fault/fault.ts";
import {
  Files,
  FilesReadResponseSchema,
  FilesStatResponseSchema,
  FilesWriteResponseSchema,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import {
  NodeLink,
  NodeLinkControlResponseSchema,
  type NodeLinkControlRequestSchema,
} from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { openDirect, openEarlierLink, openLink, openStdio, type Carrier } from "./carriers.ts";
import { wholeFault } from "./echo-services.ts";

const openers = { direct: openDirect, link: openLink, "earlier link": openEarlierLink, stdio: openStdio };
type CarrierName = keyof typeof openers;

const carriers = new Map<string, Carrier>();

beforeAll(async () => {
  for (const [name, open] of Object.entries(openers)) carriers.set(name, await open());
});

afterAll(async () => {
  for (const carrier of carriers.values()) await carrier[Symbol.asyncDispose]();
});

function carrierOf(name: CarrierName): Carrier {
  const carrier = carriers.get(name);
  if (!carrier) throw new Error(`no carrier ${name}`);
  return carrier;
}

async function* upload(chunkCount: number, path: string) {
  yield { part: { case: "header" as const, value: { path } } };
  for (let at = 0; at < chunkCount; at += 1) {
    yield { part: { case: "chunk" as const, value: Buffer.alloc(70_000, at) } };
  }
}

async function* pings(
  count: number,
  last?: "drain",
): AsyncGenerator<MessageInitShape<typeof NodeLinkControlRequestSchema>> {
  for (let at = 0; at < count; at += 1) yield { kind: { case: "ping", value: { sequence: BigInt(at) } } };
  if (last) yield { kind: { case: "drain", value: {} } };
}

/** What a caller sees of a call: its messages in order, and its fault, if it failed. */
async function observe<D extends DescMessage>(
  schema: D,
  answers: AsyncIterable<MessageShape<D>> | Promise<MessageShape<D>>,
): Promise<unknown> {
  const messages: unknown[] = [];
  try {
    if (answers instanceof Promise) messages.push(toJson(schema, await answers));
    else for await (const message of answers) messages.push(toJson(schema, message));
    return { messages, status: "OK" };
  } catch (error) {
    return { messages, status: error instanceof Fault ? toFaultJson(error) : String(error) };
  }
}

async function observeAll(carrier: Carrier): Promise<Record<string, unknown>> {
  const files = carrier.client(Files);
  const link = carrier.client(NodeLink);
  const callId = "0123456789abcdef0123456789abcdef";
  return {
    unary: await observe(FilesStatResponseSchema, files.stat({ path: "ä/b" })),
    unaryId: await observe(FilesStatResponseSchema, files.stat({ path: "id" }, { callId })),
    unaryFault: await observe(FilesStatResponseSchema, files.stat({ path: "fail" })),
    serverStream: await observe(FilesReadResponseSchema, files.read({ path: "p", length: 700n })),
    serverStreamFault: await observe(FilesReadResponseSchema, files.read({ path: "fail", length: 3n })),
    clientStream: await observe(FilesWriteResponseSchema, files.write(upload(100, "w"))),
    clientStreamFault: await observe(FilesWriteResponseSchema, files.write(upload(100, "fail"))),
    bidi: await observe(NodeLinkControlResponseSchema, link.control(pings(50))),
    bidiFault: await observe(NodeLinkControlResponseSchema, link.control(pings(5, "drain"))),
    noRequest: await observe(FilesWriteResponseSchema, files.write(upload(0, "empty"))),
    notServed: await observe(FilesStatResponseSchema, files.stat({ path: "next" })),
  };
}

proves(
  "link.every-call-kind",
  "every kind of call looks the same over a connection, a link and framed stdio",
  async () => {
    const direct = await observeAll(carrierOf("direct"));
    expect(direct["serverStream"]).toMatchObject({ messages: { length: 702 }, status: "OK" });
    expect(direct["clientStream"]).toMatchObject({
      messages: [{ entry: { path: "w", sizeBytes: "7000000" } }],
    });
    expect(direct["bidi"]).toMatchObject({ messages: { length: 50 }, status: "OK" });
    const fault = toFaultJson(wholeFault());
    expect(direct["unaryFault"]).toEqual({ messages: [], status: fault });
    expect(direct["serverStreamFault"]).toMatchObject({ messages: { length: 4 }, status: fault });
    expect(direct["bidiFault"]).toMatchObject({ messages: { length: 5 }, status: fault });
    expect(await observeAll(carrierOf("link"))).toEqual(direct);
    expect(await observeAll(carrierOf("earlier link"))).toEqual(direct);
    expect(await observeAll(carrierOf("stdio"))).toEqual(direct);
  },
);

proves(
  "link.fault-crosses-whole",
  "a fault of the node arrives whole, any other error as a trace id",
  async () => {
    for (const name of ["link", "earlier link"] as const) {
      const files = carrierOf(name).client(Files);
      const { code, message, hint, retryable, details } = wholeFault();
      const failing = [
        () => files.stat({ path: "fail" }),
        () => Array.fromAsync(files.read({ path: "fail" })),
        () => files.write(upload(1, "fail")),
      ];
      for (const call of failing) {
        const fault = await faultOf(call());
        expect(fault).toMatchObject({ code, message, hint, retryable });
        expect(fault.details).toEqual(details);
      }
      const defect = await faultOf(files.stat({ path: "defect" }));
      const traceId = defect.details["traceId"];
      expect(defect.code).toBe("INTERNAL");
      expect(traceId).toMatch(/^[0-9a-f-]{36}$/);
      expect(defect.message).toContain(traceId);
      expect(JSON.stringify([defect.message, defect.hint, defect.details])).not.toMatch(/secret|home|\.ts/);
    }
  },
);

test("a caller hears that its call was taken on before it is answered, and at the end at the latest", async () => {
  const files = carrierOf("direct").client(Files);
  const heard: string[] = [];
  const takes = Promise.withResolvers<void>();
  async function* waits() {
    yield { part: { case: "header" as const, value: { path: "take" } } };
    await takes.promise;
    heard.push("sent on");
  }
  const onTaken = (): void => {
    heard.push("taken");
    takes.resolve();
  };
  await files.write(waits(), { onTaken });
  expect(heard).toEqual(["taken", "sent on"]);
  const count = { taken: 0 };
  const counted = { onTaken: () => void (count.taken += 1) };
  await files.write(upload(0, "w"), counted);
  await faultOf(files.stat({ path: "fail" }, counted));
  await faultOf(files.stat({ path: "hang" }, { ...counted, deadlineMs: 100 }));
  expect(count.taken).toBe(3);
});

for (const name of ["direct", "link", "earlier link", "stdio"] as const) {
  test(`${name}: a message above 4 MiB fails alone`, async () => {
    const files = carrierOf(name).client(Files);
    async function* large() {
      yield { part: { case: "chunk" as const, value: Buffer.alloc(4 * 1024 * 1024) } };
    }
    const fault = await faultOf(files.write(large()));
    expect(fault).toMatchObject({ code: "TOO_LARGE", details: { limit: 4_194_304, actual: 4_194_309 } });
    expect((await files.stat({ path: "next" })).entry?.path).toBe("next");
  });

  test(`${name}: a call ends at its deadline and at its caller's wish`, async () => {
    const files = carrierOf(name).client(Files);
    const late = await faultOf(files.stat({ path: "hang" }, { deadlineMs: 200 }));
    expect(late.code).toBe("DEADLINE_EXCEEDED");
    const stop = new AbortController();
    const stopped = faultOf(files.stat({ path: "hang" }, { signal: stop.signal }));
    stop.abort(new Fault("CANCELLED", "no longer needed", { details: { reason: "draining" } }));
    expect(await stopped).toMatchObject({ code: "CANCELLED", details: { reason: "draining" } });
    expect(await faultOf(files.move({}))).toMatchObject({ code: "VERSION_UNSUPPORTED" });
    expect(await faultOf(files.stat({}, { deadlineMs: 0 }))).toMatchObject({
      details: { field: "deadline" },
    });
  });

  test(`${name}: leaving a stream early leaves nothing behind`, async () => {
    const files = carrierOf(name).client(Files);
    for await (const { part } of files.read({ path: "p", length: 100_000n })) {
      if (part.case === "chunk") break;
    }
    expect((await files.stat({ path: "after" })).entry?.path).toBe("after");
  });
}
