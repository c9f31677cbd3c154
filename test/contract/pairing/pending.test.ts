import { expect, test } from "vitest";
import type { Fault } from "../../../shared/fault/fault.ts";
import { comparisonCode } from "../../../shared/identity/comparison-code.ts";
import { startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { detailOf, openWireMachine } from "../../support/wire-machine.ts";

/** Checks an `ENROLMENT_PENDING` and gives its request's id, which is on the list. */
async function expectListed(gateway: PairingGateway, fault: Fault): Promise<string> {
  expect(fault).toMatchObject({ code: "ENROLMENT_PENDING", retryable: true });
  const requestId = detailOf(fault, "requestId");
  const listed = (await gateway.pairing.enrolments.list()).map(({ id }) => id);
  expect(listed).toContain(requestId);
  return requestId;
}

proves(
  "pairing.pending-always-has-id",
  "whatever way a machine comes to wait, it hears an id that is listed and can be approved",
  async () => {
    await using place = await makeTempFolder();
    const dir = place.join("gateway");
    const approved: string[] = [];
    const ways: readonly ((gateway: PairingGateway, code: string) => Promise<Fault>)[] = [
      // The first time, and again.
      async (gateway, code) => {
        await using machine = await openWireMachine(gateway.address);
        const first = await faultOf(machine.ask(code));
        const again = await faultOf(machine.ask(code));
        expect(again.details["requestId"]).toBe(first.details["requestId"]);
        return again;
      },
      // A call that was kept until its time was over.
      async (gateway, code) => {
        await using machine = await openWireMachine(gateway.address);
        return await faultOf(machine.ask(code, { waitMs: 50 }));
      },
      // A call that gave up its place to a newer one of the same machine.
      async (gateway, code) => {
        await using machine = await openWireMachine(gateway.address);
        await using same = await openWireMachine(gateway.address, machine.keyPem);
        const displaced = faultOf(machine.ask(code, { waitMs: 60_000 }));
        const isHeld = async (): Promise<unknown> =>
          (await gateway.pairing.enrolments.list()).at(-1)?.connected;
        await expect.poll(isHeld).toBe(true);
        await faultOf(same.ask(code, { waitMs: 50 }));
        return await displaced;
      },
      // A request that took the place of another.
      async (gateway, code) => {
        await using machine = await openWireMachine(gateway.address);
        const first = await faultOf(machine.ask(code));
        const changed = await faultOf(machine.ask(code, { workspaces: ["more"] }));
        expect(changed.details["requestId"]).not.toBe(first.details["requestId"]);
        return changed;
      },
    ];
    for (const way of ways) {
      await using gateway = await startPairingGateway({ dir });
      const { code } = await gateway.pairing.invite({ requireApproval: true });
      const id = await expectListed(gateway, await way(gateway, code));
      const { node } = await gateway.pairing.enrolments.approve(id, {});
      approved.push(node.id);
    }
    // And over a restart of the gateway between asking and approving.
    await using machine = await startPairingGateway({ dir }).then(async (gateway) => {
      await using _ = gateway;
      const { code } = await gateway.pairing.invite({ requireApproval: true });
      const before = await openWireMachine(gateway.address);
      await expectListed(gateway, await faultOf(before.ask(code)));
      return { code, keyPem: before.keyPem, [Symbol.asyncDispose]: () => before[Symbol.asyncDispose]() };
    });
    await using gateway = await startPairingGateway({ dir });
    await using after = await openWireMachine(gateway.address, machine.keyPem);
    const id = await expectListed(gateway, await faultOf(after.ask(machine.code)));
    approved.push((await gateway.pairing.enrolments.approve(id.slice(0, 6), {})).node.id);
    expect(new Set(approved).size).toBe(5);
  },
);

test("both sides make the same comparison code, each from the keys that it sees itself", async () => {
  await using gateway = await startPairingGateway();
  await using machine = await openWireMachine(gateway.address);
  const { code } = await gateway.pairing.invite({ requireApproval: true });
  const requestId = detailOf(await faultOf(machine.ask(code)), "requestId");
  const [request] = await gateway.pairing.enrolments.list();
  const { pin } = gateway.pairing;
  expect(request?.comparisonCode).toBe(comparisonCode({ gateway: pin, machine: machine.pin, requestId }));
  expect(request?.key).toBe(machine.pin);
});

test("of a machine's two ways to ask at once one waits, and the other hears so", async () => {
  await using gateway = await startPairingGateway();
  await using machine = await openWireMachine(gateway.address);
  const one = (await gateway.pairing.invite({ requireApproval: true })).code;
  const two = (await gateway.pairing.invite({ requireApproval: true, labels: { env: "two" } })).code;
  const pushedOut = faultOf(machine.ask(one, { waitMs: 60_000 }));
  const isHeld = async (): Promise<unknown> => (await gateway.pairing.enrolments.list())[0]?.connected;
  await expect.poll(isHeld).toBe(true);
  await faultOf(machine.ask(two));
  expect(await pushedOut).toMatchObject({ code: "CONFLICT", details: { reason: "superseded" } });
  expect(await gateway.pairing.enrolments.list()).toMatchObject([{ labels: { env: "two" } }]);
  // The first code has its use back.
  expect(new Set(await gateway.usesLeft())).toEqual(new Set([0, 1]));
});

test("a machine that is let in with another code waits no more, and its request names the node", async () => {
  await using gateway = await startPairingGateway();
  await using machine = await openWireMachine(gateway.address);
  const waiting = (await gateway.pairing.invite({ requireApproval: true })).code;
  const id = detailOf(await faultOf(machine.ask(waiting)), "requestId");
  const { nodeId } = await machine.ask((await gateway.pairing.invite({ alias: "at-once" })).code);
  expect(await gateway.pairing.enrolments.list()).toEqual([]);
  expect(await gateway.pairing.enrolments.approve(id, {})).toMatchObject({
    already: true,
    node: { id: nodeId, alias: "at-once" },
  });
});

test("an approval says what the node is to be, and a wish for an alias that is promised is not granted", async () => {
  await using gateway = await startPairingGateway();
  await using machine = await openWireMachine(gateway.address);
  const { code } = await gateway.pairing.invite({
    requireApproval: true,
    alias: "promised",
    labels: { env: "dev", team: "a" },
    note: "rack 7",
  });
  const id = detailOf(await faultOf(machine.ask(code)), "requestId");
  await using rival = await openWireMachine(gateway.address);
  const other = await rival.ask((await gateway.pairing.invite({})).code, { wishedAlias: "promised" });
  expect(other.alias).not.toBe("promised");
  const { enrolments } = gateway.pairing;
  await expect(enrolments.approve(id, { alias: other.alias })).rejects.toMatchObject({
    code: "ALREADY_EXISTS",
  });
  await expect(enrolments.approve(id, { labels: { "no label": "" } })).rejects.toMatchObject({
    details: { field: "label" },
  });
  await expect(enrolments.approve(id, { profile: "root" })).rejects.toMatchObject({ code: "NOT_FOUND" });
  const { node } = await enrolments.approve(id, { labels: { env: "prod" }, profile: "work" });
  expect(node).toMatchObject({
    alias: "promised",
    labels: { env: "prod", team: "a" },
    profile: "work",
    note: "rack 7",
    certificateExpiresAt: 0,
  });
  expect((await machine.ask(code)).alias).toBe("promised");
  expect((await gateway.pairing.nodes.find(node.id))?.certificateExpiresAt).toBeGreaterThan(0);
});

test("a node that was revoked after its approval is admitted by no second one", async () => {
  await using gateway = await startPairingGateway();
  await using machine = await openWireMachine(gateway.address);
  const { code } = await gateway.pairing.invite({ requireApproval: true });
  const id = detailOf(await faultOf(machine.ask(code)), "requestId");
  const { node } = await gateway.pairing.enrolments.approve(id, {});
  await gateway.pairing.nodes.revoke(node.id);
  await expect(gateway.pairing.enrolments.approve(id, {})).rejects.toMatchObject({
    code: "IDENTITY_REVOKED",
  });
  expect(await faultOf(machine.ask(code))).toMatchObject({ code: "IDENTITY_REVOKED" });
});
