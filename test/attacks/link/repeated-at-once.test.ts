import { expect } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const at50 = Array.from({ length: 50 }, (_, at) => at);

proves(
  "link.key-repeated-at-once",
  "50 repeats of one call at the same moment run it once and get 50 equal answers",
  async () => {
    await using home = await makeTempFolder();
    await using gateway = await openLinkGateway();
    const ran: string[] = [];
    const services = [
      serve(Files, {
        remove: async ({ path }, { signal }) => {
          ran.push(path);
          await systemClock.sleep(path === "slow" ? 300 : 0, { signal });
          if (path === "bad") throw new Fault("NOT_EMPTY", "it has entries", { details: { path } });
          return { removed: BigInt(ran.length) };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services, ledgerFile: home.join("ledger.db") });
    const files = (await whenLinked(gateway)).client(Files);
    for (const path of ["quick", "slow"]) {
      const before = ran.length;
      const calls = at50.map(() => files.remove({ path }, { idempotencyKey: `key of ${path}` }));
      const answers = await Promise.all(calls);
      expect(new Set(answers.map(({ removed }) => removed))).toEqual(new Set([BigInt(before + 1)]));
      expect(ran).toHaveLength(before + 1);
    }
    // A failure is an answer too.
    const failing = at50.map(() => faultOf(files.remove({ path: "bad" }, { idempotencyKey: "bad" })));
    for (const fault of await Promise.all(failing))
      expect(fault).toMatchObject({ code: "NOT_EMPTY", details: { path: "bad" } });
    expect(ran).toEqual(["quick", "slow", "bad"]);
  },
);
