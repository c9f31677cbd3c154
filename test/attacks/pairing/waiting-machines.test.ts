import { afterAll, beforeAll, expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { listPending } from "../../support/waiting-join.ts";
import { detailOf, openWireMachine, type Said, type WireMachine } from "../../support/wire-machine.ts";

const patience = { timeout: 120_000 };

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
});

/** Asks, and gives the request's id. */
async function askPending(machine: WireMachine, code: string, said?: Said): Promise<string> {
  const fault = await faultOf(machine.ask(code, said));
  expect(fault).toMatchObject({ code: "ENROLMENT_PENDING" });
  return detailOf(fault, "requestId");
}

/** The exit status and the printed error of a command; the error is undefined when it succeeded. */
function ended({ exitCode, json }: CliResult): { readonly exitCode: number | null; readonly error: unknown } {
  return { exitCode, error: (json as { readonly error?: object }).error };
}

async function approve(id: string, ...args: readonly string[]): Promise<ReturnType<typeof ended>> {
  return ended(await gateway.cli(["nodes", "approve", id, "--json", ...args]));
}

async function aliases(): Promise<readonly string[]> {
  const { nodes } = (await gateway.json(["nodes", "ls"])) as {
    readonly nodes: readonly { readonly alias: string }[];
  };
  return nodes.map(({ alias }) => alias);
}

proves(
  "pairing.approve-exactly-what-was-shown",
  "a request that changed after it was listed is not admitted by the id that was shown",
  patience,
  async () => {
    const before = await aliases();
    const first: Said = { wishedAlias: "humble", workspaces: ["app"] };
    const code = await inviteCode(gateway, ["--require-approval", "--label", "env=test"]);
    const other = await inviteCode(gateway, ["--require-approval", "--label", "env=prod"]);
    await using machine = await openWireMachine(gateway.link);
    await using thief = await openWireMachine(gateway.link);
    const shown = await askPending(machine, code, first);
    const changes: readonly (readonly [string, () => Promise<string>])[] = [
      ["wishedName", () => askPending(machine, code, { ...first, wishedAlias: "grand" })],
      ["workspaces", () => askPending(machine, code, { ...first, workspaces: ["app", "secrets"] })],
      ["labels", () => askPending(machine, other, first)],
    ];
    const expectConflict = async (listed: string, current: string, field: string): Promise<void> => {
      expect(current).not.toBe(listed);
      expect(await approve(listed)).toMatchObject({
        exitCode: 6,
        error: {
          code: "CONFLICT",
          details: { requestId: current, changed: expect.arrayContaining([field]) },
          hint: expect.stringContaining(`fairlead nodes approve ${current}`),
        },
      });
      expect((await listPending(gateway)).requests.map(({ id }) => id)).toEqual([current]);
      expect(await aliases()).toEqual(before);
    };
    let listed = shown;
    for (const [field, change] of changes) {
      const current = await change();
      await expectConflict(listed, current, field);
      listed = current;
    }
    const taken = await askPending(thief, other, { ...first, continuesRequest: listed });
    await expectConflict(listed, taken, "key");
    // The first id leads to the newest request as well, and that one is still what it was.
    expect(await approve(shown)).toMatchObject({ exitCode: 6, error: { details: { requestId: taken } } });
    expect((await gateway.cli(["nodes", "reject", taken])).exitCode).toBe(0);
  },
);

test(
  "who does not know the code's secret takes over no request, and one use is one machine's",
  patience,
  async () => {
    const code = await inviteCode(gateway, ["--require-approval"]);
    const other = await inviteCode(gateway, ["--require-approval"]);
    await using machine = await openWireMachine(gateway.link);
    await using second = await openWireMachine(gateway.link);
    const id = await askPending(machine, code);
    expect(await faultOf(second.ask(code))).toMatchObject({
      code: "JOIN_CODE_INVALID",
      details: { reason: "used" },
    });
    const own = await askPending(second, other, { continuesRequest: id });
    expect((await listPending(gateway)).requests.map((request) => request.id)).toEqual([id, own]);
    expect(await approve(id)).toMatchObject({ exitCode: 0 });
    expect((await machine.ask(code)).nodeId).toMatch(/^[0-9]/);
    expect((await gateway.cli(["nodes", "reject", own])).exitCode).toBe(0);
  },
);

proves(
  "pairing.alias-unique",
  "of two approvals, or two renames, to one alias at the same moment one succeeds",
  patience,
  async () => {
    const code = await inviteCode(gateway, ["--require-approval", "--uses", "2"]);
    await using one = await openWireMachine(gateway.link);
    await using two = await openWireMachine(gateway.link);
    const ids = [await askPending(one, code), await askPending(two, code)];
    const exactlyOne = (results: readonly ReturnType<typeof ended>[]): void => {
      expect(new Set(results.map(({ exitCode }) => exitCode))).toEqual(new Set([0, 6]));
      expect(results.find(({ exitCode }) => exitCode === 6)).toMatchObject({
        error: { code: "ALREADY_EXISTS", details: { field: "alias" } },
      });
    };
    exactlyOne(await Promise.all(ids.map((id) => approve(id, "--name", "wanted"))));
    const [loser] = (await listPending(gateway)).requests;
    expect(ids).toContain(loser?.id);
    expect(await approve(loser?.id ?? "", "--name", "late")).toMatchObject({ exitCode: 0 });
    const renames = ["wanted", "late"].map((alias) =>
      gateway.cli(["nodes", "rename", alias, "coveted", "--json"]),
    );
    exactlyOne((await Promise.all(renames)).map(ended));
    expect((await aliases()).filter((alias) => alias === "coveted")).toEqual(["coveted"]);
  },
);

test("what a machine says steers no terminal, and is cut", patience, async () => {
  const hostile = `\u001b]0;owned\u0007\u202e<script>alert(1)</script>\n${"x".repeat(10_000)}`;
  const code = await inviteCode(gateway, ["--require-approval"]);
  await using machine = await openWireMachine(gateway.link);
  const said = { wishedAlias: hostile, hostName: hostile, platform: hostile, agentVersion: hostile };
  const id = await askPending(machine, code, { ...said, workspaces: [hostile] });
  const people = await gateway.cli(["nodes", "pending"]);
  const json = await gateway.cli(["nodes", "pending", "--json"]);
  // eslint-disable-next-line no-control-regex
  const raw = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/u;
  expect(await approve(id)).toMatchObject({ exitCode: 0 });
  const record = await gateway.cli(["audit", "query", "--json"]);
  for (const text of [people.stdout, json.stdout, gateway.logs(), record.stdout]) {
    expect(text).toContain("owned");
    expect(text).not.toMatch(raw);
    expect(text).not.toContain("x".repeat(201));
  }
  const { requests } = json.json as Awaited<ReturnType<typeof listPending>>;
  const request = requests.find((one) => one.id === id);
  for (const text of [request?.hostName, request?.wishedName]) expect(text).toHaveLength(200);
  expect(await aliases()).not.toContain(hostile);
});
