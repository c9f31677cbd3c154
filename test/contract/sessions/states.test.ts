import { expect, test } from "vitest";
import type { FaceChange } from "../../../gateway/sessions/face.ts";
import { openSessionKit } from "../../support/session-kit.ts";

test("a watch tells each change of a session's state with reason, time and next step, its end last", async () => {
  await using kit = await openSessionKit();
  const node = await kit.addNode();
  const { id } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
  const { signal } = new AbortController();
  const told: FaceChange[] = [];
  const watching = (async () => {
    for await (const change of kit.face(id).changes({ signal }))
      if (change.kind === "state") told.push(change);
  })();
  const states = (): readonly unknown[] => told.map(({ standing }) => standing);
  const away = {
    state: "waiting_for_node",
    reason: "link_lost",
    sinceMs: expect.any(Number),
    nextStep: "fairlead nodes show devbox",
  };
  const back = { state: "active", reason: "", sinceMs: expect.any(Number), nextStep: "" };
  const closed = {
    state: "closed",
    reason: "closed_by_request",
    sinceMs: expect.any(Number),
    nextStep: "",
  };
  // The watch has begun once it hears of something.
  await expect
    .poll(async () => {
      if (kit.links.find("devbox")) node.disconnect();
      else await node.connect();
      return told.length;
    })
    .toBeGreaterThan(0);
  await node.connect();
  await expect.poll(() => states().at(-1)).toEqual(back);
  told.length = 0;
  node.disconnect();
  await expect.poll(states).toEqual([away]);
  await node.connect();
  await expect.poll(states).toEqual([away, back]);
  await kit.sessions.close(id);
  await watching;
  expect(states()).toEqual([away, back, closed]);
});
