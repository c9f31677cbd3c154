import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { errorOf } from "../../scenarios/files/pair.ts";
import { skillThatNeeds, startInstallNode } from "../../scenarios/installs/install-kit.ts";
import { startNpmRegistry } from "../../support/npm-registry.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const bin = "fairlead-test-tool";
const bins = `bins: [${bin}]`;

test(
  "an install that fails says what failed and leaves nothing, and one that the machine refuses starts nothing",
  { timeout: 180_000 },
  async () => {
    await using registry = await startNpmRegistry([
      { name: "no-program", version: "1.0.0", files: { "index.js": "" } },
      {
        name: bin,
        version: "1.0.0",
        bin: { [bin]: "tool.js" },
        files: { "tool.js": "#!/usr/bin/env node\n" },
      },
    ]);
    await using workspace = await makeTempWorkspace({});
    await using gateway = await startGateway();
    await using node = await startInstallNode({
      gateway,
      registry,
      workspace: workspace.path,
      profile: "full",
    });
    /** Gives the skill these recipes and installs what it needs; a plan that is asked for is allowed. */
    const install = async (...recipes: readonly string[]) => {
      await workspace.write({ "skills/fmt/SKILL.md": skillThatNeeds(bin, recipes) });
      const run = () => gateway.cli(["skills", "install-deps", "devbox-fmt", "--json"]);
      let result = await run();
      // What was saved is seen by the gateway a moment later.
      await expect
        .poll(
          async () => {
            result = await run();
            return errorOf(result).code;
          },
          { timeout: 30_000 },
        )
        .not.toMatch(/CONFLICT|NOT_FOUND|INSTALL_REFUSED/);
      if (errorOf(result).code !== "APPROVAL_REQUIRED") return errorOf(result);
      await gateway.json(["approvals", "allow", String(errorOf(result).details["approvalId"])]);
      return errorOf(await run());
    };
    const leftovers = async (): Promise<readonly string[]> =>
      (await readdir(join(node.home, "node/installs"), { recursive: true })).filter(
        (name) => name !== ".staging",
      );

    expect(await install(`{kind: go, module: example.org/tool@v1.0.0, ${bins}}`)).toMatchObject({
      code: "INSTALL_UNSUPPORTED",
      details: {
        missing: [bin],
        recipes: [{ recipe: "go-0", reason: expect.stringContaining("go") as unknown }],
      },
    });
    for (const value of ["-x", "file:../x"]) {
      expect(await install(`{kind: node, package: "${value}", ${bins}}`), value).toMatchObject({
        code: "INSTALL_UNSUPPORTED",
        details: { recipes: [{ recipe: "install.0.package" }] },
      });
    }
    expect(await install(`{kind: node, package: nowhere, ${bins}}`)).toMatchObject({
      code: "INSTALL_FAILED",
      details: { reason: "recipe_outdated" },
    });
    expect(await install(`{kind: node, package: no-program, ${bins}}`)).toMatchObject({
      code: "INSTALL_FAILED",
      details: { reason: "binary_missing", bin },
    });
    expect(await leftovers()).toEqual([]);
    registry.damage(bin, "1.0.0");
    expect(await install(`{kind: node, package: ${bin}@1.0.0, ${bins}}`)).toMatchObject({
      code: "INTEGRITY_FAILURE",
    });
    expect(await leftovers()).toEqual([]);

    const before = registry.asked.length;
    await using strict = await startInstallNode({
      gateway,
      registry,
      workspace: workspace.path,
      alias: "strict",
      profile: "full",
      allow: false,
    });
    await expect
      .poll(async () => errorOf(await gateway.cli(["skills", "install-deps", "strict-fmt", "--json"])), {
        timeout: 30_000,
      })
      .toMatchObject({ code: "INSTALL_REFUSED", details: { side: "node", rule: "installs.allow" } });
    expect(registry.asked.length).toBe(before);
    expect(await readdir(join(strict.home, "node"))).not.toContain("installs");
  },
);
