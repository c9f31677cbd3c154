import { expect } from "vitest";
import type { LiveLink } from "../../../gateway/link/links.ts";
import { askOutcome, type OutcomePart } from "../../../gateway/tools/call-outcome.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock, type Clock } from "../../../shared/lifetime/clock.ts";
import { keepOutcomeMs } from "../../../shared/rpc/limits.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const minuteMs = 60_000;

proves(
  "link.outcome-asked-again",
  "an unknown outcome is asked for by the call's id, for ten minutes after the call ended, and nothing runs again",
  async () => {
    // Only what the ledger remembers goes by it: waits take the time that they take.
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, now: () => Date.now() + aheadMs };
    await using home = await makeTempFolder();
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const gate = Promise.withResolvers<void>();
    const ran: string[] = [];
    const services = [
      serve(Files, {
        remove: async ({ path }) => {
          ran.push(path);
          await gate.promise;
          return { removed: 7n };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      services,
      clock,
      ledgerFile: home.join("ledger.db"),
    });
    const files = (await whenLinked(gateway)).client(Files);
    const call = faultOf(files.remove({ path: "once" }, { deadlineMs: 1_500 }));
    await expect.poll(() => ran).toEqual(["once"]);
    proxy.refuse();
    proxy.cut();
    // It ends well, in its time, where nobody hears of it.
    gate.resolve();
    const fault = await call;
    expect(fault).toMatchObject({
      code: "OUTCOME_UNKNOWN",
      details: { callId: expect.stringMatching(/\S/) },
    });
    const { callId } = fault.details;
    if (typeof callId !== "string") throw new Error("the fault names no call");
    expect(fault.hint).toContain(callId);
    await proxy.accept();
    await whenLinked(gateway);

    const ask = (): Promise<OutcomePart[]> =>
      Array.fromAsync(
        askOutcome(
          {
            nodeId: "devbox",
            alias: "devbox",
            callId,
            follow: false,
            stdoutOffset: 0n,
            stderrOffset: 0n,
            signal: AbortSignal.timeout(20_000),
          },
          { links: { get: (nodeId): LiveLink => gateway.host.links.get(nodeId) }, clock: systemClock },
        ),
      );
    const method = "/fairlead.v1.Files/Remove";
    const ended = [
      { kind: "state", state: "ended", method },
      { kind: "message", json: JSON.stringify({ removed: "7" }) },
    ];
    await expect.poll(ask).toEqual(ended);
    aheadMs = keepOutcomeMs - minuteMs;
    await expect.poll(() => ask().catch(() => [])).toEqual(ended);
    aheadMs = keepOutcomeMs + minuteMs;
    const unknown = async (): Promise<unknown> => await faultOf(ask());
    await expect
      .poll(unknown)
      .toMatchObject({ code: "OUTCOME_UNKNOWN", details: { callId, reason: "not_recorded" } });
    expect(ran).toEqual(["once"]);
  },
);
