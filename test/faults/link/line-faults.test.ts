import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy, type FaultProxy } from "../../support/fault-proxy.ts";

const chunkBytes = 50_000;
const chunkCount = 60;

/** What is done to the line while an answer crosses it, and whether the link outlives it. */
const faults: readonly {
  readonly name: string;
  readonly does: (line: FaultProxy) => void | Promise<void>;
  readonly survives: boolean;
  /** Whether the node is offline before anyone hears of it: then its calls end, and nobody waits. */
  readonly goesSilent?: boolean;
}[] = [
  { name: "cut in mid-frame", does: (line) => line.cut(), survives: false },
  { name: "reset", does: (line) => line.cut({ reset: true }), survives: false },
  { name: "half-closed by the node's side", does: (line) => line.halfClose("up"), survives: false },
  { name: "half-closed by the gateway's side", does: (line) => line.halfClose("down"), survives: false },
  {
    name: "stalled for less than is borne",
    does: async (line) => {
      line.stall();
      await systemClock.sleep(300);
      line.resume();
    },
    survives: true,
  },
  { name: "frozen", does: (line) => line.stall(), survives: false, goesSilent: true },
  {
    name: "swallowing what the node says",
    does: (line) => line.swallow("up"),
    survives: false,
    goesSilent: true,
  },
  {
    name: "swallowing what the gateway says",
    does: (line) => line.swallow("down"),
    survives: false,
    goesSilent: true,
  },
  { name: "delayed by 40 ms each way", does: (line) => line.delay(40), survives: true },
  { name: "chopped into pieces of 50 bytes", does: (line) => line.chop(50), survives: true },
  { name: "limited to 2 MiB/s", does: (line) => line.limit(2 * 1024 * 1024), survives: true },
];

/** The bytes of a whole answer, as their digest. */
async function digestOf(answer: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const bytes of answer) hash.update(bytes);
  return hash.digest("hex");
}

test.for(faults)(
  "over a line that is $name an answer arrives whole or ends as offline, and the link is there again",
  { timeout: 30_000 },
  async ({ does, survives, goesSilent = false }) => {
    await using gateway = await openLinkGateway({ heartbeat: { heartbeatMs: 300, deadAfterMs: 1200 } });
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    const services = [
      serve(Files, {
        stat: async ({ path }) => ({ entry: { path } }),
        read: async function* () {
          for (let at = 0; at < chunkCount; at += 1)
            yield { part: { case: "chunk", value: Buffer.alloc(chunkBytes, at) } };
        },
      }),
    ];
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${line.port}`],
      services,
      random: () => 0.3,
    });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    let seen = 0;
    const answer = async function* (isHurt: boolean): AsyncGenerator<Uint8Array> {
      for await (const { part } of files.read({})) {
        if (part.case === "chunk") yield part.value;
        seen += 1;
        if (isHurt && seen === 20) await does(line);
        // A line that neither carries nor breaks is mended once the link was given up.
        if (isHurt && seen === 20 && !survives) void mendWhenLost();
      }
    };
    const mendWhenLost = async (): Promise<void> => {
      await expect.poll(() => gateway.host.links.find("devbox") === link).toBe(false);
      line.mend();
    };
    const expected = await digestOf(answer(false));
    seen = 0;
    const outcome = digestOf(answer(true));
    if (goesSilent) expect(await faultOf(outcome)).toMatchObject({ code: "NODE_OFFLINE", retryable: true });
    else expect(await outcome).toBe(expected);
    if (survives) expect(gateway.host.links.find("devbox")).toBe(link);
    line.mend();
    await expect.poll(() => node.status().state).toBe("online");
    const again = await whenLinked(gateway);
    expect((await again.client(Files).stat({ path: "after" })).entry?.path).toBe("after");
    // Nothing of a broken connection is left.
    await expect.poll(() => gateway.server.connectionCount).toBe(1);
  },
);
