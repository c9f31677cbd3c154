import { writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openPolicy } from "../../../gateway/policy/live-policy.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { createGlobSet, type Glob, toGlobSet } from "../../../shared/names/glob.ts";
import { findDeadDenials } from "../../../shared/names/path-rules.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import { createDirectClient } from "../../contract/files/direct-client.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { runCli } from "../../support/run-cli.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { exportOf, openTempExports } from "../../unit/workspace/temp-exports.ts";

/** A deny that names a folder, and is read as a range that means nothing. */
const dead = "{foo..bar}/**";

const refused = { code: "INVALID_ARGUMENT", details: { rule: dead } };

const policyOf = (glob: string): string => `files:\n  shut: { deny: ["${glob}"] }\n`;

test("a glob that passes what it is asked for, what that leads to, or what a walk comes by is found out", () => {
  const [glob] = createGlobSet(["d/**"]).globs;
  if (!glob) throw new Error("there is no glob");
  const isSample = (path: string): boolean => path === glob.sample;
  const lies: readonly Glob[] = [
    { ...glob, covers: (path) => path.startsWith("d/") && path !== glob.sample },
    { ...glob, covers: isSample },
    { ...glob, meansItself: () => false },
  ];
  expect(findDeadDenials(toGlobSet([glob]))).toEqual([]);
  for (const lying of lies) expect(findDeadDenials(toGlobSet([lying]))).toEqual([lying]);
});

proves(
  "files.deny-self-check",
  "a deny that does not deny ends the start of either side, and later leaves the last good policy",
  { timeout: 60_000 },
  async () => {
    await using folder = await makeTempFolder();
    const [gatewayDir, nodeDir] = [folder.join("gateway"), folder.join("node")];
    for (const dir of [gatewayDir, nodeDir]) await mkdir(dir, { mode: 0o700 });
    const policyFile = join(gatewayDir, "policy.yaml");
    const configFile = join(nodeDir, "config.yaml");
    const configOf = (glob: string): string =>
      `workspaces:\n  - { name: app, dir: /tmp, deny: ["${glob}"] }\n`;
    await writeFile(policyFile, policyOf(dead));
    await writeFile(configFile, configOf(dead));
    for (const words of [
      ["gateway", "run", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
      ["node", "run"],
    ]) {
      const started = await runCli([...words, "--json"], { home: folder.path });
      expect([words[0], started.exitCode, started.json]).toMatchObject([words[0], 2, { error: refused }]);
      expect(started.stdout).toContain(dead);
    }

    // The gateway, while it runs.
    await writeFile(policyFile, policyOf("shut"));
    const faults: unknown[] = [];
    await using policy = await openPolicy({
      agents: {},
      place: { policyFile, policyFileNamed: false },
      clock: systemClock,
      onTaken: () => undefined,
      onWarning: () => undefined,
      onFault: (fault) => void faults.push(fault),
    });
    const decide = (path: string): string => {
      const place = { workspace: "app", path: parseWorkspacePath(path) };
      return policy.decideFile({ agent: "coder", node, verb: "read", place }).decision;
    };
    await writeFile(policyFile, policyOf(dead));
    await expect.poll(() => faults, { timeout: 10_000 }).toMatchObject([refused]);
    expect([decide("shut/x"), decide("open")]).toEqual(["deny", "allow"]);
    expect(await faultOf(policy.apply(policyOf(dead)))).toMatchObject(refused);
    expect([decide("shut/x"), decide("open")]).toEqual(["deny", "allow"]);

    // The node, while it runs.
    await using temp = await openTempExports(
      (dir) => {
        for (const name of ["shut", "open"]) writeFileSync(join(dir, name), name);
      },
      { settings: { deny: ["shut"] } },
    );
    const client = createDirectClient(Files, temp.files);
    const wrong = exportOf(temp.dir, { deny: [dead] });
    expect(await faultOf(temp.exports.apply([wrong]))).toMatchObject(refused);
    expect(await faultOf(client.stat({ workspace: "app", path: "shut" }))).toMatchObject({
      code: "POLICY_DENIED",
      details: { rule: "deny shut", side: "node" },
    });
    await client.stat({ workspace: "app", path: "open" });
  },
);

const node = { id: "0123456789abcdef0123", alias: "devbox", profile: "full" } as const;
