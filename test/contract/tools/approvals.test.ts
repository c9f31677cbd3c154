import { expect, test } from "vitest";
import { createApprovals, type ApprovalQuestion } from "../../../gateway/approvals/approvals.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const question: ApprovalQuestion = {
  title: "coder: exec on devbox",
  detail: "{}",
  agent: "coder",
  rule: "profile.work",
  digest: digestOf("this call"),
};
const { signal } = new AbortController();

proves(
  "policy.approval-decided-once",
  "of many answers at once one is stored; the same again is fine, another one is told which stands",
  async () => {
    await using folder = await makeTempFolder();
    await using store = await openStore({ dir: folder.join("gateway") });
    const approvals = createApprovals({ store, clock: systemClock });
    const { details } = await faultOf(approvals.ask(question, { signal, noWait: true }));
    const id = String(JSON.parse(JSON.stringify(details["approvalId"])));
    const answers = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) =>
        approvals.decide(id, { allow: index % 2 === 0, by: `p${index}` }),
      ),
    );
    const [stored] = await approvals.list({ all: true });
    const allow = stored?.state === "allowed";
    for (const [index, answer] of answers.entries()) {
      expect(answer.status).toBe((index % 2 === 0) === allow ? "fulfilled" : "rejected");
    }
    expect(await approvals.decide(id, { allow, by: "late" })).toMatchObject({ decidedBy: stored?.decidedBy });
    const conflict = await faultOf(approvals.decide(id, { allow: !allow, by: "late" }));
    expect(conflict).toMatchObject({
      code: "CONFLICT",
      details: { actual: stored?.state, decidedBy: stored?.decidedBy },
    });
    expect((await faultOf(approvals.decide("0123456789abcdef", { allow: true, by: "x" }))).code).toBe(
      "NOT_FOUND",
    );
  },
);

test("an answer that was given beforehand lets exactly that call through, once", async () => {
  await using folder = await makeTempFolder();
  await using store = await openStore({ dir: folder.join("gateway") });
  const approvals = createApprovals({ store, clock: systemClock });
  const first = await faultOf(approvals.ask(question, { signal, noWait: true }));
  const again = await faultOf(approvals.ask(question, { signal, noWait: true }));
  expect(first).toMatchObject({ code: "APPROVAL_REQUIRED", details: again.details });
  expect(await approvals.list()).toMatchObject([
    { state: "waiting", title: question.title, rule: "profile.work" },
  ]);
  const id = String(JSON.parse(JSON.stringify(first.details["approvalId"])));
  await approvals.decide(id.slice(0, 8), { allow: true, by: "local" });
  const other = { ...question, digest: digestOf("another call") };
  expect((await faultOf(approvals.ask(other, { signal, noWait: true }))).code).toBe("APPROVAL_REQUIRED");
  expect(await approvals.ask(question, { signal })).toBe(id);
  expect((await faultOf(approvals.ask(question, { signal, noWait: true }))).code).toBe("APPROVAL_REQUIRED");
});

test("a question that is open already is asked once: whoever waits for it waits for that one", async () => {
  await using folder = await makeTempFolder();
  await using store = await openStore({ dir: folder.join("gateway") });
  const approvals = createApprovals({ store, clock: systemClock });
  const { details } = await faultOf(approvals.ask(question, { signal, noWait: true }));
  const id = String(JSON.parse(JSON.stringify(details["approvalId"])));
  // Who waits in vain, or leaves, takes nothing away that was left open.
  const inVain = await faultOf(approvals.ask(question, { signal, timeoutMs: 20 }));
  expect(inVain).toMatchObject({ code: "APPROVAL_EXPIRED", details: { approvalId: id } });
  const leaving = new AbortController();
  const left = faultOf(
    approvals.ask(question, {
      signal: leaving.signal,
      onWaiting: () => leaving.abort(new Fault("CANCELLED", "it left")),
    }),
  );
  expect((await left).code).toBe("CANCELLED");
  expect(await approvals.list()).toMatchObject([{ id, state: "waiting" }]);

  const heard: string[] = [];
  const onWaiting = (waiting: string): void => void heard.push(waiting);
  const both = [0, 1].map(() => approvals.ask(question, { signal, onWaiting }));
  await expect.poll(() => heard).toEqual([id, id]);
  await approvals.decide(id, { allow: true, by: "local" });
  // It counts once: the other one asks anew.
  await expect.poll(() => heard.length).toBe(3);
  const [next, ...more] = await approvals.list();
  expect([next?.id, more]).toEqual([heard[2], []]);
  await approvals.decide(next?.id ?? "", { allow: true, by: "local" });
  expect(new Set(await Promise.all(both))).toEqual(new Set([id, next?.id]));
  const otherRule = { ...question, rule: "profile.read" };
  const asked = faultOf(approvals.ask(otherRule, { signal, timeoutMs: 20 }));
  expect((await asked).details["approvalId"]).not.toBe(id);
  expect(await approvals.list()).toEqual([]);
});

test("a person who says no, or a question too long to be shown, ends the call", async () => {
  await using folder = await makeTempFolder();
  await using store = await openStore({ dir: folder.join("gateway") });
  const approvals = createApprovals({ store, clock: systemClock });
  const asking = faultOf(approvals.ask(question, { signal }));
  await expect.poll(async () => (await approvals.list()).length).toBe(1);
  const [waiting] = await approvals.list();
  await approvals.decide(waiting?.id ?? "", { allow: false, by: "local" });
  expect(await asking).toMatchObject({ code: "APPROVAL_DENIED", details: { approvalId: waiting?.id } });
  const long = { ...question, detail: "x".repeat(16_385) };
  expect((await faultOf(approvals.ask(long, { signal }))).code).toBe("TOO_LARGE");
  expect(await approvals.list()).toEqual([]);
});
