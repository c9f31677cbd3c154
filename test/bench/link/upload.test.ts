import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";
import { uploadPlainly } from "../support/plain-upload.ts";
import { median } from "../support/report.ts";

const mib = 1024 * 1024;
const chunk = Buffer.alloc(256 * 1024, 7);
const oneWayMs = 25;
const rounds = 5;

/** MiB a second from a node to its gateway over a link. */
async function uploadOverLink(): Promise<number> {
  await using gateway = await openLinkGateway();
  await using line = await startFaultProxy({ targetPort: gateway.server.port });
  const services = [
    serve(Files, {
      read: async function* ({ length }) {
        for (let sent = 0; sent < Number(length); sent += chunk.byteLength)
          yield { part: { case: "chunk", value: chunk } };
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${line.port}`], services });
  const files = (await whenLinked(gateway)).client(Files);
  line.delay(oneWayMs);
  const sizeBytes = 96 * mib;
  const begunAt = performance.now();
  let taken = 0;
  for await (const { part } of files.read({ length: BigInt(sizeBytes) }, { bulk: true, deadlineMs: 120_000 }))
    if (part.case === "chunk") taken += part.value.byteLength;
  expect(taken).toBe(sizeBytes);
  return sizeBytes / mib / ((performance.now() - begunAt) / 1000);
}

proves(
  "link.upload-at-50-ms",
  "over a line of 50 ms an upload is twenty times as fast as with the library's own window",
  async () => {
    const [link, plain]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      link.push(await uploadOverLink());
      plain.push(await uploadPlainly(oneWayMs));
    }
    const [ours, theirs] = [median(link), median(plain)];
    console.log(
      `upload at 50 ms: link ${ours.toFixed(1)} MiB/s, the library's window ${theirs.toFixed(2)} MiB/s, ${(ours / theirs).toFixed(0)} ×`,
    );
    expect(ours / theirs).toBeGreaterThanOrEqual(20);
    expect(ours).toBeGreaterThanOrEqual(25);
  },
);
