import { expect, test } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Memory } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "./open-link.ts";

const longMs = 60_000;

test("a drain ends what follows something at once, and lets a call finish that will end", async () => {
  await using gateway = await openLinkGateway();
  const stopped = Promise.withResolvers<unknown>();
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const services = [
    serve(Memory, {
      watch: async function* (_request, { signal }) {
        yield {};
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        stopped.resolve(signal.reason);
      },
    }),
    serve(Files, {
      stat: async () => {
        begun.resolve();
        await goOn.promise;
        return {};
      },
    }),
  ];
  await using node = await openLinkNode(gateway, { services });
  const link = await whenLinked(gateway);
  const watched = link.client(Memory).watch({})[Symbol.asyncIterator]();
  await watched.next();
  const stated = link.client(Files).stat({ path: "a" });
  await begun.promise;
  const drained = node.drain({ deadlineMs: longMs, reason: "agent_stops" });
  expect(await stopped.promise).toMatchObject({ code: "CANCELLED", details: { reason: "draining" } });
  goOn.resolve();
  expect(await stated).toMatchObject({});
  // Long before the time that what ends by itself has.
  await drained;
});
