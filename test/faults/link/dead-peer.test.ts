import { readdir } from "node:fs/promises";
import { createServer as createTcpServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, Server as TlsServer } from "node:tls";
import { expect } from "vitest";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { echoServices } from "../../contract/rpc/echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { makeAuthority } from "../../contract/rpc/throwaway-certificates.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

/** A server that takes connections and says nothing. */
async function startSilent(
  server: Server,
): Promise<{ port: number; open: Set<Socket>; accepted: () => number } & AsyncDisposable> {
  const open = new Set<Socket>();
  let accepted = 0;
  server.on("connection", (socket: Socket) => {
    accepted += 1;
    open.add(socket);
    socket.on("close", () => void open.delete(socket));
    socket.on("error", () => undefined);
    // Reads, so that it sees the end; TLS reads by itself.
    if (server instanceof TlsServer) return;
    socket.resume();
  });
  server.on("secureConnection", (socket: Socket) => {
    socket.on("error", () => undefined);
    socket.resume();
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    port,
    open,
    accepted: () => accepted,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}

async function descriptorCount(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}

proves(
  "link.silent-peer-given-up",
  "a peer that takes the connection and says nothing is given up within 20 s",
  { timeout: 60_000 },
  async () => {
    const authority = await makeAuthority();
    const { keyPem: key, certificatePem: cert } = authority.server;
    const kinds = {
      tcp: () => createTcpServer(),
      tls: () => createTlsServer({ key, cert, ALPNProtocols: ["h2"] }),
    };
    for (const make of Object.values(kinds)) {
      await using gateway = await openLinkGateway({ authority });
      await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
      await using silent = await startSilent(make());
      const clock = new ManualClock();
      const tls = await authority.client("devbox");
      // At first start.
      proxy.retarget(silent.port);
      await using node = startLink({
        addresses: [`127.0.0.1:${proxy.port}`],
        loadTls: () => tls,
        services: [],
        clock,
        random: () => 0,
      });
      const rounds = async (count: number): Promise<void> => {
        for (let round = 0; round < count; round += 1) {
          const before = silent.accepted();
          await expect.poll(() => silent.open.size).toBe(1);
          await clock.advance(19_900);
          expect(silent.open.size).toBe(1);
          await clock.advance(100);
          await expect.poll(() => proxy.counts.open).toBeLessThanOrEqual(1);
          await clock.advance(1);
          await expect.poll(() => silent.accepted()).toBeGreaterThan(before);
        }
      };
      await rounds(1);
      const [descriptors, sleepers] = [await descriptorCount(), clock.sleepers];
      await rounds(9);
      // The same after a cut.
      proxy.retarget(gateway.server.port);
      await clock.advance(20_000);
      await clock.advance(1);
      await expect.poll(() => node.status().state).toBe("online");
      proxy.retarget(silent.port);
      proxy.cut();
      await expect.poll(() => node.status().state).toBe("waiting");
      await clock.advance(1);
      await rounds(10);
      await expect.poll(descriptorCount).toBeLessThanOrEqual(descriptors);
      expect(clock.sleepers).toBeLessThanOrEqual(sleepers);
      expect(node.status().attempts).toBeGreaterThan(9);
    }
  },
);

proves(
  "link.frozen-node",
  "a frozen node is offline within 26 s, and its subscriptions are freed",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ clock });
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const release = Promise.withResolvers<void>();
    const ran: string[] = [];
    const services = [
      serve(Files, {
        ...echoServices()[0]?.implementation,
        read: async function* (_request, { signal }) {
          yield { part: { case: "chunk", value: Buffer.from("first") } };
          await new Promise((_resolve, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason as Error)),
          );
        },
        remove: async ({ path }) => {
          ran.push(path);
          await release.promise;
          return { removed: 7n };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    const subscription = files.read({}, { deadlineMs: noDeadline })[Symbol.asyncIterator]();
    await subscription.next();
    const dispatched = files.remove({ path: "dispatched" }, { deadlineMs: 3_600_000 });
    const lapsing = faultOf(files.remove({ path: "lapsing" }, { deadlineMs: 40_000, callId: "lapsing" }));
    await expect.poll(() => ran.length).toBe(2);
    proxy.stall();
    const ended = faultOf(subscription.next());
    await clock.advance(24_900);
    expect(gateway.host.links.presence("devbox").state).toBe("online");
    await clock.advance(1100);
    expect(gateway.host.links.presence("devbox")).toMatchObject({
      state: "offline",
      reason: "heartbeat_missed",
    });
    expect(await ended).toMatchObject({ code: "NODE_OFFLINE" });
    expect(await faultOf(files.stat({}))).toMatchObject({ code: "NODE_OFFLINE" });
    // The node has half a second to read why; it is frozen.
    await clock.advance(500);
    await expect.poll(() => gateway.server.callCount).toBe(0);
    // A call that was dispatched ends at its deadline, or with the ledger's answer after the thaw.
    await clock.advance(14_500);
    expect(await lapsing).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { callId: "lapsing" } });
    release.resolve();
    proxy.mend();
    await whenLinked(gateway);
    await expect.poll(async () => await clock.advance(200)).toBeUndefined();
    expect((await dispatched).removed).toBe(7n);
    expect(ran).toEqual(["dispatched", "lapsing"]);
  },
);
