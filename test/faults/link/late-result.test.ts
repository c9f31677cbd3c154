import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { recordLate } from "../../../gateway/record-late.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openTestAudit } from "../../support/open-audit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const slowly = { timeout: 20_000, interval: 50 };

proves(
  "link.late-result-recorded",
  "a result that comes after its call's deadline goes to nobody, and the record says so; one that failed is no result",
  { timeout: 60_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using record = await openTestAudit(folder);
    const failures: unknown[] = [];
    await using gateway = await openLinkGateway({
      onLate: recordLate(record.audit, (error) => void failures.push(error)),
    });
    const stubborn = new Map<string, PromiseWithResolvers<bigint>>();
    const hold = (path: string): Promise<bigint> => {
      const held = Promise.withResolvers<bigint>();
      stubborn.set(path, held);
      return held.promise;
    };
    const services = [
      serve(Files, {
        stat: async ({ path }) => ({ entry: { path } }),
        // Deaf to its signal, as a handler is that hangs in the kernel.
        remove: async ({ path }) => ({ removed: await hold(path) }),
      }),
    ];
    await using _node = await openLinkNode(gateway, { services, ledgerFile: folder.join("ledger.db") });
    const files = (await whenLinked(gateway)).client(Files);
    const call = async (path: string): Promise<string> => {
      const callId = randomUUID();
      const fault = await faultOf(files.remove({ path }, { deadlineMs: 300, callId }));
      expect(fault.code).toBe("DEADLINE_EXCEEDED");
      return callId;
    };
    const late = await call("late");
    const failed = await call("failed");
    const hanging = await call("hanging");
    expect(await record.all()).toEqual([]);
    stubborn.get("late")?.resolve(1n);
    stubborn.get("failed")?.reject(new Error("the disk is gone"));
    await expect.poll(() => record.all(), slowly).toHaveLength(1);
    const method = "/fairlead.v1.Files/Remove";
    expect(await record.all()).toMatchObject([
      {
        actor: "node:devbox",
        action: "calls.end",
        target: `call:${late}`,
        outcome: "late",
        nodeId: "devbox",
        callId: late,
        details: { method },
      },
    ]);
    // The link goes on, and neither of the others is taken for a result.
    expect((await files.stat({ path: "after" })).entry?.path).toBe("after");
    stubborn.get("hanging")?.reject(new Error("it hung"));
    const ofOthers = (await record.all()).filter(({ callId }) => callId === failed || callId === hanging);
    expect(ofOthers).toEqual([]);
    expect(failures).toEqual([]);
  },
);
