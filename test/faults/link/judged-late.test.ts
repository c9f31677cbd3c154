import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { identifyByName, openLinkGateway, openLinkNode } from "../../contract/rpc/open-link.ts";

test("a link whose connection went while its hello was judged is not taken for a live one", async () => {
  const asked = Promise.withResolvers<void>();
  const judged = Promise.withResolvers<void>();
  await using gateway = await openLinkGateway({
    identify: async (certificate) => {
      asked.resolve();
      await judged.promise;
      return await identifyByName(certificate);
    },
  });
  const { links } = gateway.host;
  {
    await using _node = await openLinkNode(gateway, {});
    await asked.promise;
  }
  await expect.poll(() => gateway.server.connectionCount).toBe(0);
  judged.resolve();
  await expect.poll(() => links.presence("devbox").generation).toBeGreaterThan(0);
  expect(links.presence("devbox").state).toBe("reconnecting");
  expect(links.find("devbox")).toBeUndefined();
  // Its revocation has nothing to wait for.
  await links.end("devbox", new Fault("IDENTITY_REVOKED", "devbox was revoked"));
  expect(links.presence("devbox").state).toBe("revoked");
});
