import { expect, test } from "vitest";
import { findProcesses } from "../../support/find-processes.ts";
import { serveKit } from "../../support/mcp-kit.ts";
import { proves } from "../../support/proves.ts";
import { envelope, startSessionHouse } from "../../support/session-house.ts";
import { makeSkill } from "../../support/session-kit.ts";

const call = (word: string, id = 1): object => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name: "exec", arguments: { command: `sleep ${word}; true` }, _meta: envelope },
});
const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "exec" };

proves(
  "sessions.mcp-cancel",
  "a closed stream or a cancel notice ends the call on its node within a second, and nothing more is said of it",
  { timeout: 120_000 },
  async () => {
    await using house = await startSessionHouse();
    const running = async (word: string): Promise<void> => {
      await expect
        .poll(() => findProcesses(word).length, { timeout: 15_000, interval: 20 })
        .toBeGreaterThan(0);
    };
    const ended = async (word: string): Promise<void> => {
      await expect.poll(() => findProcesses(word), { timeout: 1_000, interval: 20 }).toEqual([]);
    };
    const leaving = new AbortController();
    const word = `1${process.hrtime.bigint()}`;
    const streaming = fetch(house.url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${house.token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...modern,
      },
      body: JSON.stringify(call(word)),
      signal: leaving.signal,
    }).catch(() => undefined);
    await running(word);
    leaving.abort();
    await streaming;
    await ended(word);
    for (const connect of [
      () => house.connectHttp("legacy"),
      () => house.connectStdio("legacy"),
      () => house.connectStdio("modern"),
    ]) {
      const client = await connect();
      const wanted = `2${process.hrtime.bigint()}`;
      const stop = new AbortController();
      const outcome = client
        .callTool({ name: "exec", arguments: { command: `sleep ${wanted}; true` } }, { signal: stop.signal })
        .then(
          () => "answered",
          () => "cancelled",
        );
      await running(wanted);
      stop.abort();
      expect(await outcome).toBe("cancelled");
      await ended(wanted);
      await client.notification({ method: "notifications/cancelled", params: { requestId: 424_242 } });
      expect((await client.callTool({ name: "exec", arguments: { command: "echo on" } })).content).toEqual([
        { type: "text", text: "on\n" },
      ]);
    }
  },
);

test("a revoked token ends its open streams and its calls", async () => {
  await using served = await serveKit();
  const word = `3${process.hrtime.bigint()}`;
  const streaming = served.post(JSON.stringify(call(word)), modern).then(
    (response) => response.status,
    () => 0,
  );
  await expect.poll(() => findProcesses(word).length, { timeout: 10_000 }).toBeGreaterThan(0);
  await served.kit.tokens.revoke(served.tokenId);
  await streaming;
  await expect.poll(() => findProcesses(word), { timeout: 2_000 }).toEqual([]);
  expect((await served.post(JSON.stringify(call(word)), modern)).status).toBe(401);
});

test("many changes at once send one notice of a kind", async () => {
  await using served = await serveKit();
  const client = await served.connect("modern");
  const heard: string[] = [];
  client.setNotificationHandler("notifications/resources/list_changed", () => void heard.push("resources"));
  await client.listen({ resourcesListChanged: true });
  for (let round = 0; round < 50; round += 1) served.kit.setSkills([makeSkill(`s${round}`)]);
  await expect.poll(() => heard.length).toBe(1);
  expect((await client.listResources()).resources).toMatchObject([{ name: "devbox-s49" }]);
  served.kit.setSkills([]);
  await expect.poll(() => heard.length).toBe(2);
});
