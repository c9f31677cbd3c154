import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { resolveDeadlineMs } from "../../../shared/rpc/deadline.ts";
import { createClient, type OutgoingCall } from "../../../shared/rpc/transport.ts";
import { proves } from "../../support/proves.ts";

proves("link.deadline-range", "a call gets 60 s unless it names between 1 ms and 24 h", async () => {
  const dispatched: OutgoingCall[] = [];
  const files = createClient(Files, async function* (call) {
    dispatched.push(call);
    yield new Uint8Array();
  });
  await files.stat({});
  await files.stat({}, { deadlineMs: 24 * 60 * 60 * 1000 });
  expect(dispatched.map(({ remainingMs }) => remainingMs)).toEqual([60_000, 86_400_000]);
  for (const deadlineMs of [0, -1, 86_400_001, Number.NaN, Number.NEGATIVE_INFINITY]) {
    const refused = { code: "INVALID_ARGUMENT", details: { field: "deadline" } };
    await expect(files.stat({}, { deadlineMs })).rejects.toMatchObject(refused);
    await expect(Array.fromAsync(files.read({}, { deadlineMs }))).rejects.toMatchObject(refused);
  }
  expect(dispatched).toHaveLength(2);
});

test("a stream that stays open has no deadline", () => {
  expect(resolveDeadlineMs(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
  expect(() => resolveDeadlineMs(0)).toThrow(Fault);
});
