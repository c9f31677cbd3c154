import { expect, test } from "vitest";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { startRelay } from "../../support/relay.ts";
import { addWireMachine, detailOf, openWireMachine } from "../../support/wire-machine.ts";

function openAsNobody(address: string): GrpcClient {
  return openGrpcClient({ address, security: () => ({ verifyPeer: () => undefined }) });
}

/** Fresh machines ask one after the other over one connection; the ids of their requests in order. */
async function flood(client: GrpcClient, code: string, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const machine = await addWireMachine(client);
    const fault = await faultOf(machine.ask(code, { hostName: `flood-${index}` }));
    expect(fault).toMatchObject({ code: "ENROLMENT_PENDING" });
    ids.push(detailOf(fault, "requestId"));
  }
  return ids;
}

async function idsFrom(gateway: PairingGateway, address: string): Promise<readonly string[]> {
  const requests = await gateway.pairing.enrolments.list();
  return requests.filter((request) => request.address === address).map(({ id }) => id);
}

proves(
  "pairing.pending-flood",
  "a flood of fresh machines keeps to its own address, and the honest machine stays on the list",
  { timeout: 240_000 },
  async () => {
    // The bound in all is smaller here than the shipped 1,000, which a unit test holds.
    await using gateway = await startPairingGateway({ limits: { pendingRequests: 45 } });
    await using relay = await startRelay("127.0.0.2", gateway.address);
    const { code } = await gateway.pairing.invite({ requireApproval: true, uses: 10_000 });
    await using honest = await openWireMachine(relay.address);
    const asked = await faultOf(honest.ask(code, { hostName: "honest" }));
    const honestId = detailOf(asked, "requestId");
    await using flooder = openAsNobody(gateway.address);
    const ids = await flood(flooder, code, 500);
    expect(await idsFrom(gateway, "127.0.0.1")).toEqual(ids.slice(-20));
    expect(await idsFrom(gateway, "127.0.0.2")).toEqual([honestId]);

    const later: (readonly string[])[] = [];
    for (const [from, count] of [
      ["127.0.0.3", 15],
      ["127.0.0.4", 12],
    ] as const) {
      await using way = await startRelay(from, gateway.address);
      await using client = openAsNobody(way.address);
      later.push(await flood(client, code, count));
    }
    // 1 + 20 + 15 + 12 are three too many: the oldest of the address that held most gave way.
    expect(await idsFrom(gateway, "127.0.0.1")).toEqual(ids.slice(-17));
    expect(await idsFrom(gateway, "127.0.0.2")).toEqual([honestId]);
    expect(await idsFrom(gateway, "127.0.0.3")).toEqual(later[0]);
    expect(await idsFrom(gateway, "127.0.0.4")).toEqual(later[1]);
    expect(await gateway.pairing.enrolments.list()).toHaveLength(45);

    const { node } = await gateway.pairing.enrolments.approve(honestId, { alias: "honest" });
    expect((await honest.ask(code, { hostName: "honest" })).nodeId).toBe(node.id);
  },
);

test("a request that gave way hears so at once, its code has its use back, and it may ask again", async () => {
  await using gateway = await startPairingGateway({ limits: { pendingRequestsPerAddress: 2 } });
  const { code } = await gateway.pairing.invite({ requireApproval: true, uses: 3 });
  await using machine = await openWireMachine(gateway.address);
  const waiting = faultOf(machine.ask(code, { waitMs: 60_000 }));
  const held = async (): Promise<unknown> => (await gateway.pairing.enrolments.list())[0]?.connected;
  await expect.poll(held).toBe(true);
  await using client = openAsNobody(gateway.address);
  await flood(client, code, 2);
  expect(await waiting).toMatchObject({
    code: "LIMIT_REACHED",
    retryable: true,
    details: { reason: "gave_way", limit: 2 },
  });
  expect(await gateway.usesLeft()).toEqual([1]);
  expect(await faultOf(machine.ask(code))).toMatchObject({ code: "ENROLMENT_PENDING" });
  expect(await gateway.pairing.enrolments.list()).toHaveLength(2);
  expect(await gateway.usesLeft()).toEqual([1]);
});
