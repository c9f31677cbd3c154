import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit } from "../../support/files-kit.ts";

const workspace = "devbox:/app";

const namesBelow = (dir: string): ReadonlySet<unknown> => {
  const names: readonly unknown[] = readdirSync(dir, { recursive: true });
  return new Set(names);
};

test("what either side denies is taken along by no removal and no move, and shown nowhere", async () => {
  const sides = [
    { side: "gateway", policy: "files:\n  shut: { deny: ['**/secret'] }\n", settings: {} },
    { side: "node", policy: "", settings: { deny: ["**/secret"] } },
  ];
  for (const { side, policy, settings } of sides) {
    const fill = (dir: string): void => {
      mkdirSync(join(dir, "d/deep/secret"), { recursive: true });
      writeFileSync(join(dir, "d/deep/secret/file"), "secret");
      writeFileSync(join(dir, "d/seen"), "seen");
    };
    await using kit = await openFilesKit({ fill, policy, settings });
    const { client } = kit;
    const before = namesBelow(kit.dir);
    for (const work of [
      client.remove({ workspace, path: "d", recursive: true }),
      client.move({ workspace, from: "d", to: "elsewhere" }),
    ]) {
      const fault = await faultOf(work);
      expect([fault.code, fault.details["side"]]).toEqual(["POLICY_DENIED", side]);
      expect(fault.details["rule"]).toContain("deny **/secret");
    }
    expect(namesBelow(kit.dir)).toEqual(before);
    const shown = [
      (await client.list({ workspace, path: "", recursive: true })).entries.map(({ path }) => path),
      (await Array.fromAsync(client.readTree({ workspace, path: "" }))).flatMap(({ entries }) =>
        entries.map(({ entry }) => entry?.path ?? ""),
      ),
    ];
    for (const paths of shown) expect(paths.toSorted()).toEqual(["d", "d/deep", "d/seen"]);
  }
});
