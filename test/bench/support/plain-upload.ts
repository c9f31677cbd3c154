import { credentials as grpcCredentials, Client, Server, ServerCredentials } from "@grpc/grpc-js";
import { startFaultProxy } from "../../support/fault-proxy.ts";

const mib = 1024 * 1024;
const chunk = Buffer.alloc(256 * 1024, 7);

/** MiB a second of an upload with the library as it comes: a client stream, mutual TLS left out in its favour. */
export async function uploadPlainly(oneWayMs: number): Promise<number> {
  const identity = (bytes: Buffer): Buffer => bytes;
  const path = "/bench.Upload/Put";
  const shape = {
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
  const server = new Server();
  server.addService(
    { put: { path, requestStream: true, responseStream: false, ...shape } },
    {
      put: (call: NodeJS.ReadableStream, done: (error: null, value: Buffer) => void) => {
        call.on("data", () => undefined);
        call.on("end", () => done(null, Buffer.alloc(0)));
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  await using line = await startFaultProxy({ targetPort: port });
  const client = new Client(`127.0.0.1:${line.port}`, grpcCredentials.createInsecure());
  await new Promise<void>((resolve, reject) => {
    client.waitForReady(Date.now() + 10_000, (error) => (error ? reject(error) : resolve()));
  });
  line.delay(oneWayMs);
  const sizeBytes = 2 * mib;
  const begunAt = performance.now();
  await new Promise<void>((resolve, reject) => {
    const call = client.makeClientStreamRequest(path, identity, identity, (error) =>
      error ? reject(error) : resolve(),
    );
    for (let sent = 0; sent < sizeBytes; sent += chunk.byteLength) call.write(chunk);
    call.end();
  });
  const rate = sizeBytes / mib / ((performance.now() - begunAt) / 1000);
  client.close();
  server.forceShutdown();
  return rate;
}
