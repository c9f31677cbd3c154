import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createJoinSecret, formatJoinCode, parseJoinCode } from "../../shared/identity/join-code.ts";
import { type CliFault, faultOf, listOf, memberOf } from "../support/cli-fault.ts";
import { runCli } from "../support/run-cli.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { inviteCode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";

// A code that does not work says why, each in its own words, and leaves nothing on either side.
const patience = { timeout: 120_000 };
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startGateway();
}, 60_000);

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
}, 60_000);

/** Joins in a home of its own, which must hold no identity and no setting afterwards. */
async function refusedJoin(code: string): Promise<CliFault> {
  await using home = await makeTempFolder();
  await using workspace = await makeTempWorkspace({ "a.txt": "a" });
  const args = ["node", "join", "-", "--json", "--workspace", `app=${workspace.path}:rw`, "--exec", "full"];
  const fault = faultOf(await runCli(args, { home: home.path, stdin: code }));
  const left = await home.entries();
  // A key of its own is made before the first contact, and waits for a code that works.
  const key = ["node", "node/identity.new", "node/identity.new/key.pem", "node/lock"];
  expect(left.filter((name) => !key.includes(name) && !/^node\/lock[.-]/.test(name))).toEqual([]);
  const secret = code.slice(-24);
  for (const name of left) {
    const text = await readFile(home.join(name), "latin1").catch(() => "");
    expect(text).not.toContain(secret);
  }
  const status = await runCli(["node", "status", "--json"], { home: home.path });
  expect(faultOf(status)).toMatchObject({ exitCode: 4, code: "NOT_FOUND" });
  return fault;
}

async function expiredCode(): Promise<string> {
  const made = await gateway.json(["invite", "--ttl", "1s"]);
  const expiresAt = Date.parse(String(memberOf(made, "expiresAt")));
  await expect.poll(() => Date.now(), { timeout: 30_000 }).toBeGreaterThan(expiresAt);
  return String(memberOf(made, "code"));
}

test(
  "a used, an expired, an unknown and a damaged code, and a wrong pin, are told apart",
  patience,
  async () => {
    const used = await inviteCode(gateway, ["--name", "first"]);
    await using home = await makeTempFolder();
    await using first = spawnProgram(["node", "join", used, "--json"], { home: home.path });
    await first.waitForLine((line) => line.includes('"event":"ready"'));
    const open = await inviteCode(gateway, ["--name", "second"]);
    const good = parseJoinCode(open);
    const { pin } = parseJoinCode(await foreignCode());

    const invalid = { exitCode: 1, code: "JOIN_CODE_INVALID", retryable: false };
    const faults = [
      [await refusedJoin(used), { ...invalid, details: { reason: "used" } }],
      [await refusedJoin(await expiredCode()), { ...invalid, details: { reason: "expired" } }],
      [
        await refusedJoin(formatJoinCode({ ...good, secret: createJoinSecret() })),
        { ...invalid, details: { reason: "unknown" } },
      ],
      [await refusedJoin(formatJoinCode({ ...good, pin })), { exitCode: 1, code: "PIN_MISMATCH" }],
      [
        await refusedJoin(`${open.slice(0, 30)}${open[30] === "A" ? "B" : "A"}${open.slice(31)}`),
        { exitCode: 2, code: "INVALID_ARGUMENT", details: { field: "code" } },
      ],
    ] as const;
    for (const [fault, expected] of faults) {
      expect(fault).toMatchObject(expected);
      expect(fault.hint).toMatch(/fairlead |code/);
    }
    expect(new Set(faults.map(([{ message }]) => message)).size).toBe(faults.length);
    const [, [expired]] = faults;
    expect(expired.message).toMatch(/\d{4}-\d\d-\d\dT\d\d:\d\d/);
    expect(expired.hint).toContain("fairlead invite");

    // Nothing is half paired on the gateway, and what was tried in vain is still good.
    const nodes = listOf(await gateway.json(["nodes", "ls"]), "nodes");
    expect(nodes.map((one) => memberOf(one, "alias"))).toEqual(["first"]);
    await using second = await makeTempFolder();
    await using joined = spawnProgram(["node", "join", open, "--json"], { home: second.path });
    await joined.waitForLine((line) => line.includes('"alias":"second"'));
    for (const program of [first, joined]) expect((await program.kill("SIGTERM")).exitCode).toBe(0);
  },
);

async function foreignCode(): Promise<string> {
  await using other = await startGateway();
  return await inviteCode(other);
}
