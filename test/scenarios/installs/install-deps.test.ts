import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { memberOf } from "../../support/cli-fault.ts";
import { type NpmRegistry, startNpmRegistry } from "../../support/npm-registry.ts";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import type { TestNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace } from "../../support/temp-workspace.ts";
import { errorOf } from "../files/pair.ts";
import { skillThatNeeds, startInstallNode } from "./install-kit.ts";

const patience = { timeout: 180_000 };

const bin = "fairlead-test-fmt";
const frontMatter = skillThatNeeds(bin, [
  `{kind: brew, formula: fmt, bins: [${bin}]}`,
  `{kind: node, package: ${bin}, bins: [${bin}]}`,
]);

const stack = new AsyncDisposableStack();
let registry: NpmRegistry;
let gateway: TestGateway;
let workspace: TempWorkspace;

beforeAll(async () => {
  registry = stack.use(
    await startNpmRegistry([
      {
        name: "fairlead-test-fmt",
        version: "1.2.3",
        bin: { "fairlead-test-fmt": "fmt.js" },
        files: {
          "fmt.js": "#!/usr/bin/env node\nconsole.log('formatted by ' + require('fairlead-test-words'));\n",
        },
        dependencies: { "fairlead-test-words": "^2.0.0" },
        scripts: { postinstall: "touch script-ran" },
      },
      { name: "fairlead-test-words", version: "2.0.1", files: { "index.js": "module.exports = 'words';\n" } },
    ]),
  );
  gateway = stack.use(await startGateway());
  workspace = stack.use(await makeTempWorkspace({ "skills/fmt/SKILL.md": frontMatter, "a.txt": "a" }));
}, 120_000);

afterAll(() => stack.disposeAsync());

const start = (): Promise<TestNode> => startInstallNode({ gateway, registry, workspace: workspace.path });

async function applyPolicy(text: string): Promise<void> {
  await using folder = await makeTempFolder();
  await writeFile(folder.join("policy.yaml"), text);
  await gateway.json(["policy", "apply", folder.join("policy.yaml")]);
}

async function openSession(): Promise<string> {
  const opened = await gateway.json(["sessions", "open", "--agent", "coder", "--workspace", "devbox:/app"]);
  return memberOf(opened, "id") as string;
}

const callIn = (session: string, tool: string, args: object): Promise<CliResult> =>
  gateway.cli([
    "tools",
    "call",
    tool,
    "--session",
    session,
    "--args",
    JSON.stringify(args),
    "--no-wait",
    "--json",
  ]);

const installIn = (session: string, ...more: readonly string[]): Promise<CliResult> =>
  gateway.cli(["skills", "install-deps", "fmt", "--session", session, "--json", ...more]);

proves(
  "pairing.no-profile-grants-nothing",
  "a node without a profile takes no write, command or install of a session until policy gives it one",
  patience,
  async () => {
    const before = registry.asked.length;
    await using node = await start();
    const session = await openSession();
    const write = (): Promise<CliResult> => callIn(session, "write", { path: "b.txt", content: "b" });
    const run = (): Promise<CliResult> => callIn(session, "exec", { command: "touch c.txt" });
    const profile = async (): Promise<unknown> =>
      memberOf(await gateway.json(["nodes", "show", "devbox"]), "profile");
    for (const refused of [await write(), await run(), await installIn(session)]) {
      expect(refused.exitCode).toBe(3);
      expect(errorOf(refused)).toMatchObject({
        code: "POLICY_DENIED",
        details: { side: "gateway", rule: "profile.read" },
        hint: expect.stringContaining(`nodeProfiles: {${node.nodeId}: work}`) as unknown,
      });
    }
    expect(await workspace.has("b.txt")).toBe(false);
    expect(await workspace.has("c.txt")).toBe(false);
    expect(await readdir(join(node.home, "node"))).not.toContain("installs");
    expect(registry.asked.length).toBe(before);
    // What may be done without a profile.
    expect(await callIn(session, "read", { path: "a.txt" })).toMatchObject({ exitCode: 0 });
    expect(await profile()).toBe("read");

    // Policy allows it, to this very node and in this very session; another node's id gives it nothing.
    await applyPolicy(
      `nodeProfiles: { "${node.nodeId.replace(/^./, (digit) => String((Number(digit) + 1) % 10))}": full }\n`,
    );
    expect(await write()).toMatchObject({ exitCode: 3 });
    await applyPolicy(`nodeProfiles: { "${node.nodeId}": full }\n`);
    expect(await profile()).toBe("full");
    expect(await write()).toMatchObject({ exitCode: 0 });
    expect(await run()).toMatchObject({ exitCode: 0 });
    expect(await workspace.has("b.txt")).toBe(true);
    expect(await workspace.has("c.txt")).toBe(true);
    expect(await callIn(session, "exec", { command: bin })).toMatchObject({ exitCode: 1 });

    // An install is asked for whatever the profile, and covers exactly the plan that was shown.
    await expect.poll(() => installIn(session), { timeout: 30_000 }).toMatchObject({ exitCode: 3 });
    const asked = errorOf(await installIn(session));
    expect(asked).toMatchObject({
      code: "APPROVAL_REQUIRED",
      hint: expect.stringContaining("approvals allow"),
    });
    const id = asked.details["approvalId"] as string;
    const shown = await gateway.json(["approvals", "show", id]);
    expect(JSON.stringify(shown)).toContain("1.2.3");
    await gateway.json(["approvals", "allow", id]);
    const done = await installIn(session);
    expect([done.exitCode, done.json]).toEqual([
      0,
      expect.objectContaining({
        ok: true,
        node: node.nodeId,
        version: "1.2.3",
        binaries: [expect.objectContaining({ name: "fairlead-test-fmt" })],
        planDigest: expect.stringMatching(/^sha256:/),
      }),
    ]);
    expect(done.stderr).toMatch(/queued\ninstalling\nverifying\npublishing\ndone\n/);
    const ran = await callIn(session, "exec", { command: bin });
    expect([ran.exitCode, ran.stdout]).toEqual([0, expect.stringContaining("formatted by words")]);
    const { skills } = (await gateway.json(["skills", "ls", "--session", session])) as {
      readonly skills: readonly { readonly name: string; readonly state: string }[];
    };
    expect(skills).toMatchObject([{ name: "fmt", state: "eligible" }]);
    const again = await installIn(session);
    expect([again.exitCode, again.stderr]).toEqual([0, ""]);
    const records = (await gateway.json(["audit", "query", "--session", session])) as {
      readonly records: readonly { readonly action: string; readonly outcome: string }[];
    };
    const told = records.records.map(({ action, outcome }) => `${action} ${outcome}`);
    expect(told).toEqual(
      expect.arrayContaining(["installs.plan ok", "installs.start ok", "installs.end ok"]),
    );
    // What was damaged since is installed again, and asked for again.
    await rm(join(node.home, "node/installs/app--fmt/current/node_modules/.bin", bin));
    const askedAgain = errorOf(await installIn(session));
    expect(askedAgain).toMatchObject({ code: "APPROVAL_REQUIRED" });
    await gateway.json(["approvals", "allow", askedAgain.details["approvalId"] as string]);
    expect(await installIn(session)).toMatchObject({ exitCode: 0, json: { version: "1.2.3" } });
    expect(await callIn(session, "exec", { command: bin })).toMatchObject({ exitCode: 0 });
    expect(await readdir(join(node.home, "node/installs/app--fmt"))).toHaveLength(3);

    const files = await readdir(join(node.home, "node/installs"), { recursive: true });
    expect(files.filter((file) => file.includes("script-ran") || file.includes(".npm"))).toEqual([]);
  },
);
