import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { createJoinSecret, formatJoinCode, parseJoinCode } from "../../../shared/identity/join-code.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { type CliResult, runCli } from "../../support/run-cli.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { listPending, startWaitingJoin, type RefusedEntry } from "../../support/waiting-join.ts";
import { detailOf, openWireMachine } from "../../support/wire-machine.ts";

const patience = { timeout: 120_000 };

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
});

interface ListedNode {
  readonly id: string;
  readonly alias: string;
}

async function listNodes(of: TestGateway = gateway): Promise<readonly ListedNode[]> {
  const { nodes } = (await of.json(["nodes", "ls"])) as {
    readonly nodes: readonly ListedNode[];
  };
  return nodes;
}

/** The error that a join printed last. */
function lastError(stdout: string): unknown {
  const { error } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { readonly error: unknown };
  return error;
}

proves(
  "pairing.approve-twice",
  "one request approved from two terminals at once and once more is one node",
  patience,
  async () => {
    const before = await listNodes();
    await using machine = await openWireMachine(gateway.link);
    const code = await inviteCode(gateway, ["--require-approval", "--uses", "2"]);
    const id = detailOf(await faultOf(machine.ask(code)), "requestId");
    const approve = (): Promise<CliResult> =>
      gateway.cli(["nodes", "approve", id, "--name", "twice", "--json"]);
    const results = [...(await Promise.all([approve(), approve()])), await approve()];
    expect(results.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
    const nodes = results.map(({ json }) => json as ListedNode & { readonly already: boolean });
    expect(new Set(nodes.map((node) => node.id)).size).toBe(1);
    expect(nodes.filter(({ already }) => already)).toHaveLength(2);
    const added = (await listNodes()).filter((node) => !before.some((old) => old.id === node.id));
    expect(added).toMatchObject([{ id: nodes[0]?.id, alias: "twice" }]);
    expect(await gateway.json(["nodes", "show", "twice"])).toMatchObject({
      state: "offline",
      reason: "awaits_machine",
      nextStep: expect.stringContaining("fairlead node join CODE"),
      certificateExpiresAt: null,
    });
    const answer = await machine.ask(code);
    expect(answer).toMatchObject({ nodeId: nodes[0]?.id, alias: "twice" });
  },
);

proves(
  "pairing.reject-ends-join",
  "a rejection ends the join that waits, and the machine becomes nothing",
  patience,
  async () => {
    const before = await listNodes();
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval"]);
    await using waiting = await startWaitingJoin(code, { home: home.path });
    expect((await gateway.cli(["nodes", "reject", waiting.requestId])).exitCode).toBe(0);
    const rejectedAt = systemClock.now();
    const { exitCode } = await waiting.ended;
    expect(systemClock.now() - rejectedAt).toBeLessThan(2_000);
    expect(exitCode).toBe(3);
    expect(lastError(waiting.stdout())).toMatchObject({
      code: "ENROLMENT_REJECTED",
      retryable: false,
      details: { requestId: waiting.requestId, reason: "rejected" },
    });
    const status = await runCli(["node", "status", "--json"], { home: home.path });
    expect(status).toMatchObject({ exitCode: 3, json: { state: "ENROLMENT_REJECTED" } });
    expect(await listNodes()).toEqual(before);
    const { requests, refused } = await listPending(gateway);
    expect(requests).toEqual([]);
    expect(refused.find(({ reason }) => reason === "rejected")).toMatchObject({ count: 1 });
    // Asking again changes nothing, and neither does deciding again.
    const again = await runCli(["node", "join", code, "--json"], { home: home.path });
    expect(again.exitCode).toBe(3);
    expect((await gateway.cli(["nodes", "reject", waiting.requestId])).exitCode).toBe(0);
    expect((await gateway.cli(["nodes", "approve", waiting.requestId])).exitCode).toBe(6);
    expect(await listNodes()).toEqual(before);
  },
);

proves(
  "pairing.pending-expires",
  "a request that nobody decided ends by itself, for the machine and for the administrator",
  patience,
  async () => {
    // The shipped 24 h are held by a unit test.
    await using place = await makeTempFolder();
    await writeConfig(place.path, "limits: { pendingRequestMs: 4000 }\n");
    await using brief = await startGateway({ home: place.path });
    await using home = await makeTempFolder();
    const code = await inviteCode(brief, ["--require-approval"]);
    await using waiting = await startWaitingJoin(code, { home: home.path });
    expect((await listPending(brief)).requests.map(({ id }) => id)).toEqual([waiting.requestId]);
    expect((await waiting.ended).exitCode).toBe(3);
    expect(lastError(waiting.stdout())).toMatchObject({
      code: "ENROLMENT_REJECTED",
      details: { requestId: waiting.requestId, reason: "expired" },
      hint: expect.stringContaining("new code"),
    });
    expect((await listPending(brief)).requests).toEqual([]);
    const late = await brief.cli(["nodes", "approve", waiting.requestId, "--json"]);
    expect(late).toMatchObject({ exitCode: 4, json: { error: { code: "NOT_FOUND" } } });
    expect(await listNodes(brief)).toEqual([]);
  },
);

async function writeConfig(home: string, text: string): Promise<void> {
  const { mkdir } = await import("node:fs/promises");
  await mkdir(join(home, "gateway"), { mode: 0o700 });
  await writeFile(join(home, "gateway", "config.yaml"), text, { mode: 0o600 });
}

proves(
  "pairing.refused-joins-listed",
  "joins that were refused are listed by address and reason, with count and last time",
  patience,
  async () => {
    await using strict = await startGateway();
    const ask = async (code: string, protocol = 3): Promise<string> => {
      await using machine = await openWireMachine(strict.link);
      const fault = await faultOf(machine.ask(code, { protocolMin: protocol, protocolMax: protocol }));
      return detailOf(fault, fault.code === "ENROLMENT_PENDING" ? "requestId" : "reason");
    };
    const expiring = await inviteCode(strict, ["--ttl", "1s"]);
    const expiresAt = systemClock.now() + 1_000;
    const once = await inviteCode(strict);
    const unknown = formatJoinCode({ ...parseJoinCode(once), secret: createJoinSecret() });
    await using lucky = await openWireMachine(strict.link);
    await lucky.ask(once);
    const began = systemClock.now();
    expect(await ask(unknown)).toBe("unknown");
    expect(await ask(unknown)).toBe("unknown");
    expect(await ask(once)).toBe("used");
    await expect(ask(await inviteCode(strict), 9)).rejects.toThrow("VERSION_UNSUPPORTED");
    const requestId = await ask(await inviteCode(strict, ["--require-approval"]));
    expect((await strict.cli(["nodes", "reject", requestId])).exitCode).toBe(0);
    await systemClock.sleep(Math.max(0, expiresAt + 100 - systemClock.now()));
    expect(await ask(expiring)).toBe("expired");

    const { refused } = await listPending(strict);
    const entry = (code: string, reason: string, count: number): Partial<RefusedEntry> => ({
      address: "127.0.0.1",
      code,
      reason,
      count,
    });
    expect(refused).toMatchObject([
      entry("JOIN_CODE_INVALID", "expired", 1),
      entry("ENROLMENT_REJECTED", "rejected", 1),
      entry("VERSION_UNSUPPORTED", "version_unsupported", 1),
      entry("JOIN_CODE_INVALID", "used", 1),
      entry("JOIN_CODE_INVALID", "unknown", 2),
    ]);
    for (const { lastSeenAt } of refused) {
      expect(Date.parse(lastSeenAt)).toBeGreaterThanOrEqual(began);
      expect(Date.parse(lastSeenAt)).toBeLessThanOrEqual(systemClock.now());
    }
    const people = await strict.cli(["nodes", "pending"]);
    expect(people.stdout).toMatch(/^refused 127\.0\.0\.1: unknown \(JOIN_CODE_INVALID\), 2 times, last /m);
  },
);

proves(
  "pairing.alias-wish-never-overrides",
  "a machine's wish is its alias only when nobody else named one and it is free",
  patience,
  async () => {
    const joined = async (code: string, wish: readonly string[]): Promise<string> => {
      await using home = await makeTempFolder();
      await using program = spawnProgram(["node", "join", "-", ...wish], { home: home.path, stdin: code });
      return await program.waitForLine((line) => line.startsWith("joined as "));
    };
    const wish = ["--name", "wished"];
    expect(await joined(await inviteCode(gateway), wish)).toMatch(/^joined as wished, /);
    expect(await joined(await inviteCode(gateway, ["--name", "named"]), wish)).toMatch(
      /^joined as named \(not wished\), /,
    );
    expect(await joined(await inviteCode(gateway), wish)).toMatch(
      /^joined as node-[0-9a-f-]+ \(not wished\), /,
    );
    expect(await joined(await inviteCode(gateway), [])).toMatch(/^joined as node-[0-9a-f-]+, /);

    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval", "--name", "promised"]);
    await using program = spawnProgram(["node", "join", "-", "--name", "free"], {
      home: home.path,
      stdin: code,
    });
    const command = await program.waitForLine((line) => line.startsWith("fairlead nodes approve "));
    const [, , , id = ""] = command.split(" ");
    expect((await gateway.cli(["nodes", "approve", id, "--name", "approved"])).exitCode).toBe(0);
    expect(await program.waitForLine((line) => line.startsWith("joined as "))).toMatch(
      /^joined as approved \(not free\), /,
    );
    await program.waitForLine((line) => line === "ready");

    await using machine = await openWireMachine(gateway.link);
    const own = await inviteCode(gateway);
    const first = await machine.ask(own, { wishedAlias: "first" });
    const second = await machine.ask(own, { wishedAlias: "second", hostName: "second" });
    expect([first.alias, second.alias]).toEqual(["first", "first"]);
    const aliases = (await listNodes()).map(({ alias }) => alias);
    expect(aliases).toEqual(expect.arrayContaining(["wished", "named", "approved", "first"]));
    for (const unwanted of ["free", "promised", "second"]) expect(aliases).not.toContain(unwanted);
  },
);
