import { readFile, stat } from "node:fs/promises";
import { afterAll, beforeAll, expect } from "vitest";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { Audit } from "../../shared/gen/fairlead/v1/audit_pb.ts";
import { Authority } from "../../shared/gen/fairlead/v1/authority_pb.ts";
import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { Policy } from "../../shared/gen/fairlead/v1/policy_pb.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { State } from "../../shared/gen/fairlead/v1/state_pb.ts";
import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { parsePin } from "../../shared/identity/pin.ts";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { callTraitsOf } from "../../shared/rpc/call-traits.ts";
import { type GrpcClient, openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import { nameOfRole } from "../../shared/rpc/principal.ts";
import { faultOfEmptyCall } from "../support/empty-call.ts";
import { faultOf } from "../support/fault-of.ts";
import { proves } from "../support/proves.ts";
import { readLiveFiles } from "../support/read-live-files.ts";
import { type CliResult, runCli } from "../support/run-cli.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { startGateway, type TestGateway } from "../support/start-gateway.ts";
import { inviteCode } from "../support/start-node.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { startWaitingJoin } from "../support/waiting-join.ts";

const patience = { timeout: 120_000 };

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
});

async function makeToken(
  ...args: readonly string[]
): Promise<{ readonly id: string; readonly token: string }> {
  return (await gateway.json(["tokens", "create", ...args])) as { id: string; token: string };
}

function envOf(token: string) {
  return {
    FAIRLEAD_GATEWAY: `https://${gateway.link}`,
    FAIRLEAD_TOKEN: token,
    FAIRLEAD_PIN: gateway.pin,
  };
}

function dial(token?: string): GrpcClient {
  const pins = [parsePin(gateway.pin)];
  return openGrpcClient({
    address: gateway.link,
    security: () => ({ verifyPeer: (chain) => judgeGateway({ pins, clock: systemClock }, chain) }),
    ...(token === undefined ? {} : { metadata: { authorization: `Bearer ${token}` } }),
  });
}

const services = [Admin, Audit, Authority, Files, Policy, Sessions, State] as const;

/** What each role may do beyond the one before. */
const least = {
  viewer: ["getCaller", "getNode", "getStatus", "listApprovals", "listEnrolments", "listGrants", "listNodes"],
  operator: [
    "approveEnrolment",
    "decideApproval",
    "disconnectNode",
    "drainNode",
    "labelNode",
    "noteNode",
    "rejectEnrolment",
    "revokeGrant",
    "undrainNode",
  ],
  admin: [
    "addUser",
    "createInvite",
    "createToken",
    "listTokens",
    "listUsers",
    "removeUser",
    "renameNode",
    "revokeNode",
    "revokeToken",
    "setUserRole",
  ],
};

proves(
  "fleet.roles",
  "every administrators' method has its least role, and a lower one gets the code with the role that is needed",
  patience,
  async () => {
    const declared = Object.groupBy(Admin.methods, (method) => nameOfRole(callTraitsOf(method).leastRole));
    const names = Object.entries(declared).map(([role, methods = []]) => [
      role,
      methods.map(({ localName }) => localName).toSorted(),
    ]);
    expect(Object.fromEntries(names)).toEqual(least);
    // Calls of a node's files and tools, and copies of the state.
    expect(nameOfRole(callTraitsOf(Sessions.method.callTool).leastRole)).toBe("operator");
    expect(nameOfRole(callTraitsOf(Files.method.write).leastRole)).toBe("operator");
    expect(nameOfRole(callTraitsOf(State.method.backup).leastRole)).toBe("admin");
    expect(nameOfRole(callTraitsOf(Authority.method.changeAuthority).leastRole)).toBe("admin");

    const roles = ["viewer", "operator", "admin"];
    const agentToken = await makeToken("--agent", "main");
    const clients = new Map<string, GrpcClient>([["", dial(agentToken.token)]]);
    for (const role of roles) clients.set(role, dial((await makeToken("--role", role)).token));
    await using nobody = dial();
    // Of the files' methods one is a node's alone, and no other: it is asked before an approval.
    const all = services
      .flatMap((service) => service.methods)
      .filter(({ localName }) => localName !== "preflight");
    for (const method of all) {
      const role = nameOfRole(callTraitsOf(method).leastRole);
      expect([method.localName, roles.includes(role)]).toEqual([method.localName, true]);
      for (const lower of ["", ...roles.slice(0, roles.indexOf(role))]) {
        const client = clients.get(lower);
        const fault = client && (await faultOfEmptyCall(client, method));
        expect([method.localName, lower, fault?.code, fault?.details["role"]]).toEqual([
          method.localName,
          lower,
          "POLICY_DENIED",
          role,
        ]);
      }
      expect((await faultOfEmptyCall(nobody, method))?.code).toBe("UNAUTHENTICATED");
    }
    for (const method of Admin.methods) {
      for (const role of roles.slice(roles.indexOf(nameOfRole(callTraitsOf(method).leastRole)))) {
        const client = clients.get(role);
        const fault = client && (await faultOfEmptyCall(client, method));
        const isRefused = fault?.code === "UNAUTHENTICATED" || fault?.details["rule"] === "role";
        expect([method.localName, role, isRefused]).toEqual([method.localName, role, false]);
      }
    }
    for (const client of clients.values()) await client[Symbol.asyncDispose]();
  },
);

proves(
  "fleet.approve-from-automation",
  "an operator's token lets a machine in without a terminal, and revokes none",
  patience,
  async () => {
    await using home = await makeTempFolder();
    await using elsewhere = await makeTempFolder();
    const code = await inviteCode(gateway, ["--require-approval"]);
    await using waiting = await startWaitingJoin(code, { home: home.path }, ["--name", "asks"]);
    const env = envOf((await makeToken("--role", "operator")).token);
    const run = (...args: readonly string[]): Promise<CliResult> =>
      runCli([...args, "--json"], { home: elsewhere.path, env });
    expect(await run("nodes", "approve", waiting.requestId)).toMatchObject({ exitCode: 0 });
    await waiting.waitForLine((line) => line.includes('"event":"ready"'));
    expect(await run("nodes", "revoke", "asks")).toMatchObject({
      exitCode: 3,
      json: { error: { code: "POLICY_DENIED", details: { role: "admin" } } },
    });
    expect(await gateway.json(["nodes", "show", "asks"])).toMatchObject({ state: "online" });
    const { records } = (await gateway.json(["audit", "query", "--action", "enrolments.approve"])) as {
      readonly records: readonly { readonly outcome: string }[];
    };
    const done = records.filter(({ outcome }) => outcome === "ok");
    expect(done).toMatchObject([{ actor: "user:local", address: "127.0.0.1" }]);
    expect(await gateway.json(["audit", "query", "--action", "nodes.revoke"])).toMatchObject({
      records: expect.arrayContaining([
        expect.objectContaining({ outcome: "POLICY_DENIED", target: "node:asks", address: "127.0.0.1" }),
      ]) as unknown,
    });
    expect(await elsewhere.entries()).toEqual([]);
  },
);

proves(
  "fleet.token-shown-once",
  "a token's text is printed once, and is in no list, store or backup",
  patience,
  async () => {
    await using place = await makeTempFolder();
    const made = await gateway.cli(["tokens", "create", "--role", "viewer"]);
    const text = made.stdout.trim();
    expect(text).toMatch(/^flt_[0-9a-f]{16}_\S{43}$/);
    const id = text.slice(4, 20);
    const find = async (): Promise<unknown> => {
      const { tokens } = (await gateway.json(["tokens", "ls"])) as {
        readonly tokens: readonly { readonly id: string }[];
      };
      return tokens.find((token) => token.id === id);
    };
    const aTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT/) as unknown;
    expect(await find()).toMatchObject({ role: "viewer", createdAt: aTime, usedAt: null, expiresAt: aTime });
    expect(await runCli(["nodes", "ls"], { home: place.path, env: envOf(text) })).toMatchObject({
      exitCode: 0,
    });
    expect(await find()).toMatchObject({ usedAt: aTime });
    const listed = await gateway.cli(["tokens", "ls"]);
    expect(listed.stdout).toContain(id);
    const backup = place.join("backup");
    await gateway.json(["gateway", "backup", backup]);
    const secret = text.slice(21);
    const kept = [{ path: backup, bytes: await readFile(backup) }, ...(await readLiveFiles(gateway.home))];
    expect(kept.length).toBeGreaterThan(3);
    expect([listed.stdout, gateway.logs()].filter((shown) => shown.includes(secret))).toEqual([]);
    for (const { path, bytes } of kept) expect([path, bytes.includes(secret)]).toEqual([path, false]);
  },
);

proves(
  "fleet.token-ends-at-once",
  "a token that was revoked, or has expired, opens nothing more and ends what goes on",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const revoked = await makeToken("--role", "viewer");
    const brief = await makeToken("--role", "viewer", "--ttl", "8s");
    const follow = (token: string): ReturnType<typeof spawnProgram> =>
      spawnProgram(["audit", "tail", "--follow", "--json"], { home: home.path, env: envOf(token) });
    await using first = follow(revoked.token);
    await using second = follow(brief.token);
    await Promise.all([first.waitForLine(() => true), second.waitForLine(() => true)]);
    await using client = dial(revoked.token);
    expect(await client.client(Admin).getCaller({})).toMatchObject({ role: "viewer" });
    await gateway.json(["tokens", "revoke", revoked.id]);
    expect(await faultOf(client.client(Admin).getCaller({}))).toMatchObject({ code: "UNAUTHENTICATED" });
    expect((await first.ended).exitCode).toBe(1);
    expect(first.stdout()).toContain('"code":"UNAUTHENTICATED"');
    expect((await second.ended).exitCode).toBe(1);
    const late = await runCli(["nodes", "ls", "--json"], { home: home.path, env: envOf(brief.token) });
    expect(late).toMatchObject({ exitCode: 1, json: { error: { code: "UNAUTHENTICATED" } } });
    expect(late.stdout).toMatch(/the token expired at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/);
  },
);

proves(
  ["fleet.login-context", "fleet.gateway-chosen"],
  "a login is kept for its owner alone, and whoami says which gateway is meant and why",
  patience,
  async () => {
    await using home = await makeTempFolder();
    const url = `https://${gateway.link}`;
    const viewer = await makeToken("--role", "viewer");
    const run = (args: readonly string[], more: object = {}): Promise<CliResult> =>
      runCli([...args, "--json"], { home: home.path, ...more });

    // Nothing on standard input, or no pin: nothing is asked, nothing kept.
    for (const args of [
      ["login", url, "--pin", gateway.pin],
      ["login", url],
    ])
      expect(await run(args)).toMatchObject({ exitCode: 2, json: { error: { code: "INVALID_ARGUMENT" } } });
    const wrong = `sha256:${"0".repeat(64)}`;
    const other = await run(["login", url, "--pin", wrong], { stdin: viewer.token });
    expect(other).toMatchObject({ exitCode: 1, json: { error: { code: "PIN_MISMATCH" } } });
    expect(await home.entries()).toEqual([]);

    const login = await run(["login", url, "--pin", gateway.pin], { stdin: `${viewer.token}\n` });
    expect(login).toMatchObject({ exitCode: 0, json: { gateway: url, user: "local", role: "viewer" } });
    expect((await stat(home.join("login.json"))).mode & 0o777).toBe(0o600);
    expect(await run(["whoami"])).toMatchObject({
      exitCode: 0,
      json: { gateway: url, chosenBy: "login", user: "local", role: "viewer", token: viewer.id },
    });

    // Before the login: what is named, the option first; and the socket of the home.
    const admin = await makeToken("--role", "admin");
    const env = envOf(admin.token);
    expect(await run(["whoami"], { env })).toMatchObject({
      json: { chosenBy: "environment", role: "admin" },
    });
    const named = await run(["whoami", "--gateway", url], {
      env: { ...env, FAIRLEAD_GATEWAY: "https://x:1" },
    });
    expect(named).toMatchObject({ exitCode: 0, json: { gateway: url, chosenBy: "option", role: "admin" } });
    const own = await gateway.cli(["login", url, "--pin", gateway.pin], { stdin: viewer.token });
    expect(own.exitCode).toBe(0);
    expect(await gateway.json(["whoami"])).toMatchObject({
      chosenBy: "local_socket",
      role: "admin",
      token: null,
    });
    await gateway.json(["logout"]);

    const plain = await run(["whoami", "--gateway", "http://gateway.example:7443"], { env });
    expect(plain).toMatchObject({ exitCode: 2, json: { error: { code: "INVALID_ARGUMENT" } } });
    expect(plain.stdout).toContain("a token would travel in clear");
    expect(plain.stdout + plain.stderr).not.toContain(admin.token);

    expect(await run(["logout"])).toMatchObject({ exitCode: 0, json: { gateway: url } });
    expect(await home.entries()).toEqual([]);
    expect(await run(["whoami"])).toMatchObject({ exitCode: 5 });
  },
);

proves(
  "fleet.last-admin-kept",
  "the last administrator is neither removed nor demoted, also by two commands at once",
  patience,
  async () => {
    const code = async (...args: readonly string[]): Promise<unknown> => {
      const { exitCode, json } = await gateway.cli([...args, "--json"]);
      return exitCode === 0 ? 0 : [exitCode, (json as { error: { code: string } }).error.code];
    };
    expect(await code("users", "role", "local", "viewer")).toEqual([6, "CONFLICT"]);
    expect(await code("users", "rm", "local")).toEqual([6, "CONFLICT"]);
    await gateway.json(["users", "add", "anna", "--role", "admin"]);
    const anna = await makeToken("--user", "anna", "--role", "admin");
    await using client = dial(anna.token);
    expect(await client.client(Admin).getCaller({})).toMatchObject({ user: "anna", role: "admin" });
    const both = await Promise.all([
      code("users", "role", "local", "operator"),
      code("users", "role", "anna", "operator"),
    ]);
    expect(both).toContainEqual([6, "CONFLICT"]);
    expect(both).toContain(0);
    const last = both[0] === 0 ? "anna" : "local";
    for (const args of [
      ["users", "rm", last],
      ["users", "role", last, "viewer"],
    ])
      expect(await code(...args)).toEqual([6, "CONFLICT"]);
    await gateway.json(["users", "role", "local", "admin"]);
    // What a user has bounds their tokens at once.
    await gateway.json(["users", "role", "anna", "viewer"]);
    expect(await client.client(Admin).getCaller({})).toMatchObject({ role: "viewer" });
    await gateway.json(["users", "rm", "anna"]);
    expect(await faultOf(client.client(Admin).getCaller({}))).toMatchObject({ code: "UNAUTHENTICATED" });
  },
);
