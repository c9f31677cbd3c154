import { expect, test } from "vitest";
import type { FilePlace, SideWord } from "../../../gateway/serve/policy.ts";
import { createPolicyFace } from "../../../gateway/serve/policy.ts";
import { createFilePolicy } from "../../../node-agent/workspace/file-policy.ts";
import { Policy, type PolicyExplainResponse } from "../../../shared/gen/fairlead/v1/policy_pb.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { createDirectClient } from "../../contract/files/direct-client.ts";
import { faultOf } from "../../support/fault-of.ts";
import { openFilesKit, type FilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { exportOf } from "../workspace/temp-exports.ts";

const workspace = "devbox:/app";

interface Asked {
  readonly client: Client<typeof Policy>;
  readonly recorded: unknown[];
}

const silent: SideWord = { decision: "allow", rule: "", reason: "", hint: "" };

function ask(kit: FilesKit, says: (place: FilePlace) => SideWord = () => silent): Asked {
  const recorded: unknown[] = [];
  const face = createPolicyFace({
    policy: kit.policy,
    policyFile: kit.policyFile,
    configured: {},
    nodes: { resolve: async () => ({ ...baseNode, ...kit.node }) },
    findGrant: () => undefined,
    ignoresCase: () => false,
    askNode: async (place) => says(place),
    findTool: () => undefined,
    audit: { append: async (entry) => void recorded.push(entry) },
  });
  return { client: createDirectClient(Policy, face), recorded };
}

const baseNode = {
  labels: {},
  profile: "full",
  note: "",
  keyDigest: "",
  issuerPin: "",
  pairedAt: 0,
  certificateExpiresAt: 0,
  revokedAt: undefined,
  hostName: "",
  platform: "linux",
} as const;

function explain(client: Client<typeof Policy>, path: string): Promise<PolicyExplainResponse> {
  return client.explain({ agent: "operator", node: "devbox", verb: "read", workspace: "app", path });
}

const paths = ["d", "d/a", "d/.dot", "d/sub/a", "d2", "e"];

proves(
  "files.policy-bare-directory",
  "an entry for a folder means it and all below it, with /* its direct children; explain and denials say so",
  async () => {
    for (const [entry, allowed, meaning] of entries) {
      const onNode = createFilePolicy(exportOf("/x", { read: [entry] }));
      const said = paths.filter(
        (path) => onNode.judge("read", parseWorkspacePath(path)).decision === "allow",
      );
      expect([entry, said]).toEqual([entry, allowed]);

      await using kit = await openFilesKit({ policy: `files:\n  one: { read: ["${entry}"] }\n` });
      const { client } = ask(kit);
      const found: string[] = [];
      for (const path of paths) {
        const answer = await explain(client, path);
        if (answer.decision === "allow") found.push(path);
        expect(answer.layers.map((layer) => layer.entries.map((one) => one.meaning))).toEqual([[meaning]]);
      }
      expect([entry, found]).toEqual([entry, allowed]);
    }

    // Refused: by explain, by the operation itself on either side.
    await using kit = await openFilesKit({
      policy: 'files:\n  one: { read: ["d/*", "other"] }\n',
    });
    const denied = await explain(ask(kit).client, "d/sub/a");
    expect(denied).toMatchObject({ decision: "deny", rule: "files.one no_allow", nearest: "d/*" });
    expect(denied.reason).toContain('"d/*" nearly allows it');
    const fault = await faultOf(kit.client.stat({ workspace, path: "d/sub/a" }));
    expect([fault.code, fault.message]).toEqual([
      "POLICY_DENIED",
      expect.stringContaining('"d/*" nearly allows it'),
    ]);
    expect(fault.hint).toContain("d/* means the direct children of d");
    const onNode = createFilePolicy(exportOf("/x", { read: ["d/*", "other"] }));
    const byNode = await faultOf(async () => onNode.require("read", parseWorkspacePath("d/sub/a")));
    expect(byNode).toMatchObject({ code: "POLICY_DENIED", details: { side: "node", nearest: "d/*" } });
    expect(byNode.hint).toContain("d/*");
  },
);

/** What each entry allows of `paths`, and what is said of its meaning. */
const entries = [
  ["d", ["d", "d/a", "d/.dot", "d/sub/a"], "d means d and everything below it"],
  ["d/", ["d", "d/a", "d/.dot", "d/sub/a"], "d/ means d and everything below it"],
  ["d/*", ["d/a", "d/.dot"], "d/* means the direct children of d, neither d itself nor what lies deeper"],
] as const;

test("a question is answered for both sides, by the stronger word", async () => {
  await using kit = await openFilesKit({ policy: "files:\n  one: { ask: on-miss, read: [open] }\n" });
  const deny: SideWord = { decision: "deny", rule: "deny **/.env*", reason: "shut", hint: "open it" };
  const { client } = ask(kit, ({ path }) => (path.includes(".env") ? deny : silent));
  expect(await explain(client, "open/a")).toMatchObject({ decision: "allow", side: "gateway" });
  expect(await explain(client, "shut/a")).toMatchObject({
    decision: "ask",
    rule: "files.one ask on-miss",
    side: "gateway",
    node: { decision: "allow" },
  });
  expect(await explain(client, "open/.env")).toMatchObject({
    decision: "deny",
    rule: "deny **/.env*",
    side: "node",
    hint: "open it",
  });
  const agent = "operator";
  expect(await client.explain({ agent, node: "devbox", tool: "exec" })).toMatchObject({ decision: "allow" });
  expect((await faultOf(client.explain({ agent, node: "devbox", tool: "nosuch" }))).code).toBe("NOT_FOUND");
  expect((await faultOf(client.explain({ agent, node: "devbox", verb: "eat" }))).details).toMatchObject({
    field: "verb",
  });
});

test("a text is validated before it is applied, and one without a rule is warned of", async () => {
  const heard: string[] = [];
  await using kit = await openFilesKit({ policy: "", onWarning: (warning) => void heard.push(warning) });
  const { client, recorded } = ask(kit);
  expect(heard).toEqual([expect.stringContaining("holds no rule")]);
  expect((await client.show({})).warnings).toEqual(heard);
  const name = "new.yaml";
  expect((await client.check({ name, text: "# nothing\n" })).warnings).toEqual([
    expect.stringMatching(/^new\.yaml holds no rule: it allows everything/),
  ]);
  expect((await client.check({ name, text: "files: { open: {} }" })).warnings).toEqual([
    "files.open of new.yaml holds no rule: it narrows nothing",
  ]);
  const wrong = await faultOf(client.apply({ name, text: "files: { one: { read: 3 } }" }));
  expect([wrong.code, wrong.message]).toEqual([
    "INVALID_ARGUMENT",
    expect.stringMatching(/^new\.yaml, line 1/),
  ]);
  expect(recorded).toEqual([]);

  const text = "files:\n  one: { read: [src], deny: ['**/x'] }\n";
  expect(await client.apply({ name, text })).toMatchObject({ changed: true, warnings: [] });
  expect(recorded).toMatchObject([{ action: "policy.apply", before: { text: "" }, after: { text } }]);
  expect(await client.show({})).toMatchObject({
    exists: true,
    text,
    warnings: [],
    rules: { files: { one: { read: ["src"], deny: ["**/x"] } } },
    entries: [
      { entry: "src" },
      { entry: "**/x", meaning: "**/x is a pattern: it means what fits it, and everything below that" },
    ],
  });
});
