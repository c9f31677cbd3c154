import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { errorOf, startFilesPair, type FilesPair } from "./pair.ts";

const workspace = "devbox:/app";
const bigBytes = 96 * 1024 * 1024;
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({
    files: {
      "both.txt": "both",
      "node-shut/a.txt": "a",
      "gateway-shut/b.txt": "b",
      "big.bin": Buffer.alloc(bigBytes, "x"),
    },
  });
  await pair.workspace.link("alias", "gateway-shut");
}, 60_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
}, 60_000);

/** Changes what the node's configuration says of its workspace, and waits until its agent goes by it. */
async function setNode(settings: string, isTaken: () => Promise<boolean>): Promise<void> {
  const file = join(pair.node.home, "node", "config.yaml");
  const text = await readFile(file, "utf8");
  const plain = text.replaceAll(/^ {4}(deny|followSymlinks):.*\n/gm, "");
  await writeFile(file, plain.replace(/^( {4}dir:.*\n)/m, `$1${settings}`));
  await vi.waitUntil(isTaken, { timeout: 10_000, interval: 50 });
}

const stat = (path: string): Promise<unknown> => pair.client.stat({ workspace, path });
const isDenied = (path: string) => async (): Promise<boolean> =>
  stat(path).then(
    () => false,
    (error: unknown) => error instanceof Fault && error.code === "POLICY_DENIED",
  );

proves(
  ["files.policy-both-sides", "files.policy-canonical-recheck"],
  "a path is served where both sides allow it, by its own name and by what it leads to",
  { timeout: 60_000 },
  async () => {
    await setNode("    deny: [node-shut]\n    followSymlinks: true\n", isDenied("node-shut/a.txt"));
    await pair.setPolicy("files:\n  shut: { deny: [gateway-shut] }\n");
    const byNode = await faultOf(stat("node-shut/a.txt"));
    expect(byNode).toMatchObject({
      code: "POLICY_DENIED",
      details: { side: "node", rule: "deny node-shut" },
    });
    const byGateway = await faultOf(stat("gateway-shut/b.txt"));
    expect(byGateway).toMatchObject({
      code: "POLICY_DENIED",
      details: { side: "gateway", rule: "files.shut deny gateway-shut" },
    });
    const served = await pair.files(["cat", `${workspace}/both.txt`]);
    expect(served).toMatchObject({ exitCode: 0, stdout: "both" });

    // By a tool as well, of an agent and by hand.
    for (const path of ["gateway-shut/b.txt", "alias/b.txt"]) {
      const args = JSON.stringify({ path });
      const called = await pair.gateway.cli(["nodes", "call", "devbox", "read", "--args", args, "--json"]);
      expect(called.exitCode).toBe(3);
      expect(errorOf(called)).toMatchObject({ code: "POLICY_DENIED", details: { side: "gateway" } });
    }
    const args = JSON.stringify({ path: "alias/new.txt", content: "new" });
    const written = await pair.gateway.cli(["nodes", "call", "devbox", "write", "--args", args, "--json"]);
    expect(errorOf(written)).toMatchObject({ code: "POLICY_DENIED", details: { side: "gateway" } });

    // The path that was asked for is allowed, and the one that it leads to is not.
    const cat = await pair.files(["cat", `${workspace}/alias/b.txt`]);
    expect([cat.exitCode, cat.stdout]).toEqual([3, ""]);
    const read = await pair.files(["cat", `${workspace}/alias/b.txt`, "--json"]);
    expect(errorOf(read)).toMatchObject({ code: "POLICY_DENIED", details: { side: "gateway" } });
    for (const name of ["b.txt", "new.txt"]) {
      const words = ["put", join(pair.workspace.path, "both.txt"), `${workspace}/alias/${name}`];
      const put = await pair.files([...words, "--if-match", "any", "--json"]);
      expect(put.exitCode).toBe(3);
      expect(errorOf(put)).toMatchObject({ code: "POLICY_DENIED", details: { side: "gateway" } });
    }
    expect(await pair.workspace.text("gateway-shut/b.txt")).toBe("b");
    expect(await pair.workspace.has("gateway-shut/new.txt")).toBe(false);
  },
);

test("policy is asked before it bites, and is told apart from none", { timeout: 60_000 }, async () => {
  await setNode("    deny: [node-shut]\n    followSymlinks: true\n", isDenied("node-shut/a.txt"));
  await pair.setPolicy('files:\n  some: { read: ["both.txt", "node-shut", "d/*"] }\n');
  const asked = ["policy", "explain", "--agent", "coder", "--node", "devbox", "--read"];
  const shown = await pair.gateway.cli([...asked, "/app/d/deep/x"]);
  expect(shown.exitCode).toBe(0);
  expect(shown.stdout).toContain("deny: files.some no_allow (gateway)");
  expect(shown.stdout).toContain("nearly allowed by: d/*");
  expect(shown.stdout).toContain("read: node-shut means node-shut and everything below it");
  expect(shown.stdout).toContain("read: d/* means the direct children of d");
  const byNode = await pair.gateway.cli([...asked, "/app/node-shut/a.txt", "--json"]);
  expect(byNode.json).toMatchObject({ decision: "deny", side: "node", rule: "deny node-shut" });

  const file = join(pair.gateway.home, "empty.yaml");
  await writeFile(file, "# nothing yet\n");
  const applied = await pair.gateway.cli(["policy", "apply", file]);
  expect([applied.exitCode, applied.stderr]).toEqual([0, expect.stringContaining("warning: ")]);
  expect(applied.stderr).toContain("holds no rule: it allows everything");
  await vi.waitUntil(() => pair.gateway.logs().includes("holds no rule: it allows everything"));
});

/** How long what runs takes to end, from the change on, in milliseconds. */
async function endedAfter(work: Promise<unknown>, change: () => Promise<void>): Promise<Fault> {
  const ended = faultOf(work);
  await change();
  return await ended;
}

proves(
  "files.policy-live",
  "a change on either side holds for the next operation, and ends what runs",
  { timeout: 90_000 },
  async () => {
    // A reader that takes a little at first, and then nothing more until policy has changed.
    const reading = async (): Promise<void> => {
      let count = 0;
      for await (const { part } of pair.client.read({ workspace, path: "big.bin" })) {
        if (part.case !== "chunk" || (count += 1) > 4) continue;
        if (count === 4) started.resolve();
        if (count === 4) await going.promise;
      }
    };
    const watching = async (): Promise<void> => {
      for await (const event of pair.client.watch({ workspace, path: "" }))
        if (event.source) started.resolve();
    };
    let started = Promise.withResolvers<void>();
    let going = Promise.withResolvers<void>();
    const sides: readonly (readonly [string, () => Promise<void>, () => Promise<void>])[] = [
      [
        "gateway",
        () => pair.setPolicy('files:\n  shut: { deny: ["**"] }\n'),
        () => pair.setPolicy("files: {}\n"),
      ],
      [
        "node",
        () => setNode('    deny: ["**"]\n    followSymlinks: true\n', isDenied("both.txt")),
        () => setNode("    followSymlinks: true\n", async () => !(await isDenied("node-shut/a.txt")())),
      ],
    ];
    for (const [, , open] of sides) await open();
    for (const [side, shut, open] of sides) {
      await open();
      await stat("both.txt");
      for (const run of [reading, watching]) {
        started = Promise.withResolvers();
        going = Promise.withResolvers();
        const work = run();
        await started.promise;
        let takenAt = 0;
        const fault = await endedAfter(work, async () => {
          await shut();
          takenAt = Date.now();
          going.resolve();
        });
        expect([side, run.name, fault]).toMatchObject([
          side,
          run.name,
          { code: "POLICY_DENIED", details: { side } },
        ]);
        expect(Date.now() - takenAt).toBeLessThan(1_000);
        expect(await faultOf(stat("both.txt"))).toMatchObject({ code: "POLICY_DENIED", details: { side } });
        await open();
      }
    }
  },
);
