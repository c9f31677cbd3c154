import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { credentials as grpcCredentials, Client, Server, ServerCredentials } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import {
  Files,
  FilesStatRequestSchema,
  FilesStatResponseSchema,
  type FilesStatRequest,
  type FilesStatResponse,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import type { Authority } from "../../contract/rpc/throwaway-certificates.ts";
import { proves } from "../../support/proves.ts";
import { median, printReport, ratio, saveReports, type Report, type Row } from "../support/report.ts";

const rounds = 5;
const alone = 1500;
const together = 8000;

type Call = (path: string) => Promise<unknown>;

/** Plain grpc-js, one unary method over a direct connection with mutual TLS. */
async function startDirect(authority: Authority): Promise<{ readonly call: Call } & AsyncDisposable> {
  const path = "/fairlead.v1.Files/Stat";
  const bytes = {
    requestSerialize: (request: FilesStatRequest) => Buffer.from(toBinary(FilesStatRequestSchema, request)),
    requestDeserialize: (raw: Buffer) => fromBinary(FilesStatRequestSchema, raw),
    responseSerialize: (response: FilesStatResponse) =>
      Buffer.from(toBinary(FilesStatResponseSchema, response)),
    responseDeserialize: (raw: Buffer) => fromBinary(FilesStatResponseSchema, raw),
  };
  const server = new Server();
  server.addService(
    { stat: { path, requestStream: false, responseStream: false, ...bytes } },
    {
      stat: (
        { request }: { readonly request: FilesStatRequest },
        done: (error: null, value: FilesStatResponse) => void,
      ) => done(null, create(FilesStatResponseSchema, { entry: { path: request.path } })),
    },
  );
  const { keyPem, certificatePem, authorityPem } = authority.server;
  const root = Buffer.from(authorityPem);
  const pair = { private_key: Buffer.from(keyPem), cert_chain: Buffer.from(certificatePem) };
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createSsl(root, [pair], true), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  const own = await authority.client("direct");
  const client = new Client(
    `127.0.0.1:${port}`,
    grpcCredentials.createSsl(root, Buffer.from(own.keyPem ?? ""), Buffer.from(own.certificatePem ?? ""), {
      checkServerIdentity: () => undefined,
    }),
  );
  return {
    call: (asked) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          path,
          bytes.requestSerialize,
          bytes.responseDeserialize,
          create(FilesStatRequestSchema, { path: asked }),
          { deadline: Date.now() + 60_000 },
          (error, value) => (error ? reject(error) : resolve(value)),
        );
      }),
    [Symbol.asyncDispose]: async () => {
      client.close();
      server.forceShutdown();
    },
  };
}

async function timeEach(call: Call): Promise<number> {
  const tookMs: number[] = [];
  for (let at = 0; at < alone; at += 1) {
    const begunAt = performance.now();
    await call("short");
    tookMs.push(performance.now() - begunAt);
  }
  return median(tookMs);
}

async function timeTogether(call: Call): Promise<number> {
  const begunAt = performance.now();
  let left = together;
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await call("short");
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
  return performance.now() - begunAt;
}

const rowOf = (name: string, all: readonly number[]): Row => ({
  name,
  medianMs: median(all),
  allMs: all.map((value) => Math.round(value * 1000) / 1000),
  cpuSeconds: Number.NaN,
  peaks: {},
});

proves(
  "link.short-call-cost",
  "a short call over a link costs half of the same over a direct connection",
  async () => {
    await using gateway = await openLinkGateway();
    const services = [serve(Files, { stat: async ({ path }) => ({ entry: { path } }) })];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    await using direct = await startDirect(gateway.authority);
    const link: Call = (path) => files.stat({ path });
    const [alones, togethers] = [new Map<string, number[]>(), new Map<string, number[]>()];
    for (let round = -1; round < rounds; round += 1) {
      for (const [name, call] of [
        ["link", link],
        ["direct unary", direct.call],
      ] as const) {
        const [one, many] = [await timeEach(call), await timeTogether(call)];
        if (round < 0) continue;
        alones.set(name, [...(alones.get(name) ?? []), one]);
        togethers.set(name, [...(togethers.get(name) ?? []), many]);
      }
    }
    const report = (title: string, all: ReadonlyMap<string, readonly number[]>): Report => ({
      title,
      rows: Array.from(all, ([name, values]) => rowOf(name, values)),
      ours: ["link"],
    });
    const one = report("one short call, the median of them", alones);
    const many = report(`${together} short calls, 16 in flight`, togethers);
    printReport(many);
    const us = (name: string): string =>
      ((one.rows.find((row) => row.name === name)?.medianMs ?? 0) * 1000).toFixed(0);
    console.log(`${one.title}: link ${us("link")} µs, direct unary ${us("direct unary")} µs`);
    await saveReports("link-calls", [one, many]);
    expect(ratio(one, "link", "direct unary")).toBeGreaterThanOrEqual(2);
    expect(ratio(many, "link", "direct unary")).toBeGreaterThanOrEqual(2);
  },
);

test("short calls go on beside a transfer that takes what it can", async () => {
  await using gateway = await openLinkGateway();
  const chunk = Buffer.alloc(256 * 1024, 1);
  const services = [
    serve(Files, {
      stat: async ({ path }) => ({ entry: { path } }),
      read: async function* () {
        for (;;) yield { part: { case: "chunk", value: chunk } };
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { services });
  const files = (await whenLinked(gateway)).client(Files);
  const measure = async (): Promise<readonly number[]> => {
    const tookMs: number[] = [];
    for (let at = 0; at < 1000; at += 1) {
      const begunAt = performance.now();
      await files.stat({ path: "short" });
      tookMs.push(performance.now() - begunAt);
    }
    return tookMs.toSorted((a, b) => a - b);
  };
  await measure();
  const quiet = await measure();
  const stop = new AbortController();
  let movedBytes = 0;
  const begunAt = performance.now();
  const bulk = (async () => {
    for await (const { part } of files.read({}, { bulk: true, signal: stop.signal }))
      if (part.case === "chunk") movedBytes += part.value.byteLength;
  })().catch(() => undefined);
  await expect.poll(() => movedBytes).toBeGreaterThan(0);
  const busy = await measure();
  const rate = movedBytes / 1e6 / ((performance.now() - begunAt) / 1000);
  stop.abort();
  await bulk;
  const at = (values: readonly number[], share: number): number =>
    values[Math.floor(values.length * share)] ?? Number.NaN;
  const line = (values: readonly number[]): string =>
    `p50 ${at(values, 0.5).toFixed(2)} ms, p99 ${at(values, 0.99).toFixed(2)} ms`;
  console.log(
    `short calls alone: ${line(quiet)}; beside ${rate.toFixed(0)} MB/s on the same link: ${line(busy)}`,
  );
  // In one process and on one event loop a call waits for what is being carried, and not for all of it.
  expect(at(busy, 0.5)).toBeLessThan(60 * at(quiet, 0.5));
});
