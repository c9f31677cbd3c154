import { mkdir, writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startSessionHouse } from "../../support/session-house.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

proves(
  "sessions.sleeping-node-tools",
  "a node that sleeps takes its own tools out of the list; the bound ones stay and say why they cannot be used",
  { timeout: 120_000 },
  async () => {
    await using home = await makeTempFolder();
    await mkdir(home.join("gateway"), { mode: 0o700 });
    await writeFile(
      home.join("gateway", "config.yaml"),
      "limits:\n  heartbeatMs: 1000\n  deadAfterMs: 6000\n",
    );
    await using house = await startSessionHouse({ gateway: { home: home.path } });
    const client = await house.connectHttp("modern");
    const names = async (): Promise<readonly string[]> =>
      (await client.listTools()).tools.map(({ name }) => name);
    const awake = await names();
    expect(awake).toContain("devbox__exec");
    house.node.signal("SIGSTOP");
    const bound = ["exec", "list", "memory_get", "memory_search", "read", "write"];
    await expect.poll(names, { timeout: 15_000 }).toEqual(bound);
    const call = async (
      name: string,
      given: Record<string, string>,
    ): Promise<{ readonly ms: number; readonly answer: unknown }> => {
      const startedAt = performance.now();
      const answer = await client.callTool({ name, arguments: given });
      return { ms: performance.now() - startedAt, answer };
    };
    const prefixed = await call("devbox__exec", { command: "true" });
    expect(prefixed.ms).toBeLessThan(1_000);
    expect(prefixed.answer).toMatchObject({
      isError: true,
      structuredContent: {
        error: {
          code: "NODE_OFFLINE",
          hint: expect.stringContaining("fairlead") as unknown,
          details: { node: "devbox", since: expect.stringMatching(/^20\d\d-/) as unknown },
        },
      },
    });
    for (const [name, given] of [
      ["exec", { command: "true" }],
      ["read", { path: "a" }],
      ["write", { path: "a", content: "x" }],
      ["list", {}],
    ] as const) {
      const { ms, answer } = await call(name, given);
      expect(ms).toBeLessThan(1_000);
      expect(answer).toMatchObject({
        isError: true,
        structuredContent: {
          error: { code: "WORKSPACE_ACCESS_UNAVAILABLE", details: { reason: "node_offline" } },
        },
      });
    }
    const search = await call("memory_search", { query: "anything" });
    expect(search.answer).toMatchObject({ structuredContent: { hits: [] } });
    house.node.signal("SIGCONT");
    await expect.poll(names, { timeout: 20_000 }).toEqual(awake);
    await expect
      .poll(async () => (await call("exec", { command: "echo back" })).answer, { timeout: 20_000 })
      .toMatchObject({ content: [{ text: "back\n" }] });
  },
);
