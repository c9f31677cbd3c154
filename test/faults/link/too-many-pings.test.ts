import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";
import { expect } from "vitest";
import { echoServices } from "../../contract/rpc/echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { dialByHand } from "../../support/hand-made-node.ts";
import { proves } from "../../support/proves.ts";

const channel = "http2.server.stream.created";

proves(
  "link.ping-rate-agreed",
  "a close for too many pings doubles the interval and logs one line, and HTTP/2 pings are never sent",
  async () => {
    const sessions = new Set<Http2Session>();
    let http2Pings = 0;
    const watch = (message: unknown): void => {
      // The channel's documented message.
      const { session } = (message as { readonly stream: ServerHttp2Stream }).stream;
      if (!session || sessions.has(session)) return;
      sessions.add(session);
      session.on("ping", () => {
        http2Pings += 1;
      });
    };
    subscribe(channel, watch);
    try {
      await using gateway = await openLinkGateway({ heartbeat: { heartbeatMs: 100, deadAfterMs: 1000 } });
      const lines: string[] = [];
      await using node = await openLinkNode(gateway, {
        services: echoServices(),
        random: () => 0,
        onFault: (error) => void lines.push(String(error)),
      });
      const first = await whenLinked(gateway);
      await expect.poll(() => node.status().state).toBe("online");
      let { generation } = first;
      for (const [closes, expected] of [200, 400].entries()) {
        // What a proxy says that counts pings.
        for (const session of sessions) {
          if (!session.destroyed)
            session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from("too_many_pings"));
        }
        await expect
          .poll(() => gateway.host.links.find("devbox")?.generation ?? 0)
          .toBeGreaterThan(generation);
        generation = gateway.host.links.get("devbox").generation;
        expect(gateway.host.links.get("devbox").hello.heartbeatAtLeastMs).toBe(expected);
        expect(lines.filter((line) => line.includes(`one in ${expected} ms`))).toHaveLength(1);
        expect(lines).toHaveLength(closes + 1);
        await expect.poll(() => node.status().state).toBe("online");
      }
      // What the gateway announces to such a node, and keeps itself: the dead-after time grows with the interval.
      await using slow = await dialByHand(gateway, { name: "slow", hello: { heartbeatAtLeastMs: 400 } });
      expect(await slow.accepted).toMatchObject({ heartbeatMs: 400, deadAfterMs: 4000 });
      const pings = (): number => slow.heard.filter((kind) => kind.case === "ping").length;
      const begunAt = performance.now();
      await expect.poll(pings).toBe(3);
      expect(performance.now() - begunAt).toBeGreaterThan(900);
      expect(http2Pings).toBe(0);
    } finally {
      unsubscribe(channel, watch);
    }
  },
);
