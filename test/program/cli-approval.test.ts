import { cp, readdir } from "node:fs/promises";
import { hostname } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { proves } from "../support/proves.ts";
import { runCli } from "../support/run-cli.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { inviteCode, startNode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { makeTempWorkspace } from "../support/temp-workspace.ts";
import { listPending, startWaitingJoin } from "../support/waiting-join.ts";

// Each of these starts several programs: the machine may be busy with other tests.
const patience = { timeout: 120_000 };

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
});

async function isOnline(alias: string): Promise<boolean> {
  const { nodes } = (await gateway.json(["nodes", "ls", "--state", "online"])) as {
    readonly nodes: readonly { readonly alias: string }[];
  };
  return nodes.some((node) => node.alias === alias);
}

proves(
  ["pairing.approval-wait-shown", "pairing.join-interrupted"],
  "a join that waits says what for, and goes on under the same request after Ctrl-C",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval"]);
    const join = (): ReturnType<typeof spawnProgram> =>
      spawnProgram(["node", "join", code], { home: home.path });
    await using program = join();
    const command = await program.waitForLine((line) => line.startsWith("fairlead nodes approve "));
    const [request, ...more] = (await listPending(gateway)).requests;
    expect(more).toEqual([]);
    expect(command).toBe(`fairlead nodes approve ${request?.id}`);
    expect(program.stdout()).toContain(`request ${request?.id}`);
    expect(program.stdout()).toContain(`comparison code: ${request?.comparisonCode} `);

    expect((await gateway.cli(["nodes", "ls"])).stderr).toContain("a machine waits to be let in");
    const shown = await runCli(["node", "status"], { home: home.path });
    expect(shown.exitCode).toBe(3);
    expect(shown.stdout).toMatch(/^state: waiting for approval since \d{4}-\d\d-\d\dT/m);
    expect(shown.stdout).toContain(`request: ${request?.id}`);
    expect(shown.stdout).toContain(`next step: ${command}`);
    const status = await runCli(["node", "status", "--json"], { home: home.path });
    expect(status).toMatchObject({
      exitCode: 3,
      json: { state: "waiting_for_approval", requestId: request?.id, nextStep: command },
    });

    expect((await program.kill("SIGINT")).exitCode).toBe(130);
    await using again = join();
    await again.waitForLine((line) => line === command);
    expect((await listPending(gateway)).requests.map(({ id }) => id)).toEqual([request?.id]);
    expect((await gateway.cli(["nodes", "reject", request?.id ?? ""])).exitCode).toBe(0);
    expect((await again.ended).exitCode).toBe(3);
  },
);

test(
  "a copy of a home that waits can wait for itself, and a machine can stop waiting",
  patience,
  async () => {
    await using home = await makeTempFolder();
    await using copy = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval", "--uses", "2"]);
    await using original = await startWaitingJoin(code, { home: home.path });
    await cp(home.join("node"), copy.join("node"), { recursive: true });
    await using other = await startWaitingJoin(code, { home: copy.path }, ["--new-identity"]);
    expect(other.requestId).not.toBe(original.requestId);
    const { requests } = await listPending(gateway);
    expect(requests.map(({ id }) => id)).toEqual([original.requestId, other.requestId]);
    expect(new Set(requests.map(({ keyFingerprint }) => keyFingerprint)).size).toBe(2);

    const left = await runCli(["node", "leave"], { home: copy.path });
    expect(left.exitCode).toBe(7);
    expect(left.stdout).toContain(`fairlead nodes reject ${other.requestId}`);
    await other.ended;
    expect((await readdir(copy.join("node"))).filter((name) => !name.startsWith("lock"))).toEqual([]);
    for (const id of [original.requestId, other.requestId])
      expect((await gateway.cli(["nodes", "reject", id])).exitCode).toBe(0);
    expect((await original.ended).exitCode).toBe(3);
  },
);

proves(
  ["pairing.approve-admits-waiting-node", "pairing.one-approval-suffices"],
  "one approval lets a waiting machine in, with all that it publishes, while it waits",
  patience,
  async () => {
    await using home = await makeTempFolder();
    await using workspace = await makeTempWorkspace({
      "skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies up.\n---\nTidy up.\n",
    });
    const code = await inviteCode(gateway, ["--require-approval", "--note", "for the build team"]);
    const args = ["--workspace", `app=${workspace.path}`, "--exec", "full", "--name", "wanted"];
    await using join = await startWaitingJoin(code, { home: home.path }, args);
    const { requests } = await listPending(gateway);
    expect(requests).toMatchObject([
      {
        id: join.requestId,
        command: `fairlead nodes approve ${join.requestId}`,
        comparisonCode: join.comparisonCode,
        wishedName: "wanted",
        hostName: hostname(),
        platform: "linux",
        keyFingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        address: "127.0.0.1",
        workspaces: ["app"],
        profile: "read",
        note: "for the build team",
      },
    ]);
    const isConnected = async (): Promise<unknown> => (await listPending(gateway)).requests[0]?.connected;
    await expect.poll(isConnected, { timeout: 10_000 }).toBe(true);
    const approved = await gateway.json(["nodes", "approve", join.requestId, "--name", "devbox"]);
    expect(approved).toMatchObject({ alias: "devbox", already: false, comparisonCode: join.comparisonCode });
    // Two seconds where the machine is free; here others share it.
    await join.waitForLine((line) => line.includes('"event":"ready"'), 8_000);
    expect(await isOnline("devbox")).toBe(true);

    const workspaces = { app: workspace.path };
    await using _ = await startNode({ gateway, alias: "plain", workspaces });
    const listed = await gateway.json(["workspaces", "ls"]);
    const tools = JSON.stringify(await gateway.json(["tools", "ls"]));
    const skills = async (): Promise<string> => JSON.stringify(await gateway.json(["skills", "ls"]));
    // A machine that somebody waits for is linked first; its skills follow.
    await expect.poll(skills, { timeout: 20_000 }).toContain("devbox-tidy");
    for (const alias of ["devbox", "plain"]) {
      expect(listed).toMatchObject({
        workspaces: expect.arrayContaining([expect.objectContaining({ node: alias, name: "app" })]),
      });
      expect(tools).toContain(`${alias}__list`);
      expect(await skills()).toContain(`${alias}-tidy`);
    }
    expect((await listPending(gateway)).requests).toEqual([]);
    expect(await gateway.json(["nodes", "show", "devbox"])).toMatchObject({ note: "for the build team" });
  },
);
