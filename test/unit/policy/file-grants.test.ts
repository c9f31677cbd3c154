import { describe, expect, test } from "vitest";
import { openGrants, type Grants, type NewGrant } from "../../../gateway/approvals/grants.ts";
import { createPolicy, type FileDecision } from "../../../gateway/policy/policy.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { createFilePolicy } from "../../../node-agent/workspace/file-policy.ts";
import type { PathPlatform } from "../../../shared/names/workspace-path.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { p } from "../root/temp-root.ts";
import { exportOf } from "../workspace/temp-exports.ts";

const first = "0123456789abcdef0123";
const second = "1123456789abcdef0123";

interface OpenedGrants extends AsyncDisposable {
  readonly grants: Grants;
  readonly clock: ManualClock;
}

async function openedGrants(): Promise<OpenedGrants> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await makeTempFolder());
  const clock = new ManualClock();
  const store = stack.use(await openStore({ dir: folder.join("gateway"), clock }));
  const grants = await openGrants({ store, clock, record: async () => undefined, onChange: () => undefined });
  const owned = stack.move();
  return { grants, clock, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const given: NewGrant = {
  agent: "coder",
  sessionId: undefined,
  tool: undefined,
  nodeId: first,
  workspace: "app",
  kind: "read",
  requestedPath: "d/[x]*?",
  canonicalPath: "real/[x]*?",
  lifeMs: 60_000,
  approvalId: "a1",
  grantedBy: "local",
};

const asks = createPolicy({
  file: { name: "policy.yaml", text: "files:\n  all: { read: [], write: [], ask: on-miss }\n" },
});

/** As the gateway asks: once for the path that was asked for, once for the one that it leads to. */
function decide(grants: Grants, changes: Partial<NewGrant>): readonly [FileDecision, FileDecision] {
  const { nodeId, workspace, requestedPath, canonicalPath, ...asked } = { ...given, ...changes };
  const judge = (path: string, canonical: string | undefined): FileDecision =>
    asks.decideFile({
      agent: asked.agent,
      node: { id: nodeId, alias: "devbox", profile: "full" },
      verb: asked.kind === "write" ? "write" : "read",
      place: {
        workspace,
        path: p(path),
        findGrant: () =>
          grants.find({ ...asked, nodeId, workspace, requestedPath, canonicalPath: canonical })?.id,
      },
    });
  return [judge(requestedPath, undefined), judge(canonicalPath, canonicalPath)];
}

proves(
  "files.grant-exact",
  "a standing grant is for one node, one kind and one path that leads where it led",
  async () => {
    await using opened = await openedGrants();
    const { grants, clock } = opened;
    const { id } = await grants.add(given);
    for (const decision of decide(grants, {})) {
      expect(decision).toMatchObject({ decision: "allow", rule: `files.all grant ${id}`, grantId: id });
    }
    const others: Readonly<Record<string, Partial<NewGrant>>> = {
      "a sibling": { requestedPath: "d/y", canonicalPath: "real/y" },
      "a name that it would mean as a pattern": { requestedPath: "d/xab", canonicalPath: "real/xab" },
      "a child": { requestedPath: "d/[x]*?/y", canonicalPath: "real/[x]*?/y" },
      "its folder": { requestedPath: "d", canonicalPath: "real" },
      "another kind": { kind: "write" },
      "the whole tree": { kind: "read_tree" },
      "another node": { nodeId: second },
      "another workspace": { workspace: "other" },
      "another agent": { agent: "writer" },
      "a tool": { tool: "read" },
    };
    for (const [name, changes] of Object.entries(others)) {
      expect([name, ...decide(grants, changes).map(({ decision }) => decision)]).toEqual([
        name,
        "ask",
        "ask",
      ]);
    }
    // The path leads elsewhere by now.
    const moved = decide(grants, { canonicalPath: "other/place" });
    expect(moved.map(({ decision }) => decision)).toEqual(["allow", "ask"]);
    await clock.advance(60_000);
    expect(decide(grants, {}).map(({ decision }) => decision)).toEqual(["ask", "ask"]);
    expect(grants.list()).toEqual([]);
  },
);

describe("grants", () => {
  test("of one session or one tool are for that alone", async () => {
    await using opened = await openedGrants();
    const { grants } = opened;
    await grants.add({ ...given, sessionId: "s1", tool: "read" });
    const { canonicalPath: _, ...asked } = given;
    const find = (sessionId: string | undefined, tool: string | undefined): boolean =>
      grants.find({ ...asked, sessionId, tool }) !== undefined;
    expect([find("s1", "read"), find("s2", "read"), find("s1", undefined), find(undefined, "read")]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  test("that are equal are one, the later one; revoked by a prefix that fits one only", async () => {
    await using opened = await openedGrants();
    const { grants } = opened;
    await grants.add(given);
    const later = await grants.add({ ...given, lifeMs: 120_000 });
    const other = await grants.add({ ...given, kind: "write" });
    expect(grants.list().map(({ id }) => id)).toEqual(
      [later, other].toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ id }) => id),
    );
    await expect(grants.revoke("")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(grants.revoke("zz")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await grants.revoke(later.id)).toEqual(later);
    expect(grants.list()).toEqual([other]);
  });
});

/** What a node's rules say, seen from a home and an export. */
function nodePolicy(
  rules: { readonly read?: readonly string[]; readonly deny?: readonly string[] },
  place: { readonly home: string; readonly root: string; readonly platform?: PathPlatform },
): (path: string) => string {
  const home = { platform: "posix" as const, ...place };
  const policy = createFilePolicy(exportOf(place.root, rules), { home });
  return (path) => policy.judge("read", p(path)).decision;
}

proves(
  "files.policy-by-node-id",
  "rules and grants are a node's by its id, and ~ is the home on the node",
  async () => {
    await using opened = await openedGrants();
    const { grants } = opened;
    await grants.add(given);
    const policy = createPolicy({
      file: {
        name: "policy.yaml",
        text: `files:\n  first: { nodes: ["${first}"], deny: [secret], read: [], ask: on-miss }\n`,
      },
    });
    const judge = (id: string, alias: string, path: string): string => {
      const { decision } = policy.decideFile({
        agent: "coder",
        node: { id, alias, profile: "full" },
        verb: "read",
        place: {
          workspace: "app",
          path: p(path),
          findGrant: () =>
            grants.find({ ...given, nodeId: id, canonicalPath: undefined, requestedPath: path })?.id,
        },
      });
      return decision;
    };
    // Renamed, it keeps them; who has its old alias then has none.
    for (const alias of ["devbox", "renamed"]) {
      expect(judge(first, alias, "secret")).toBe("deny");
      expect(judge(first, alias, given.requestedPath)).toBe("allow");
      expect(judge(first, alias, "other")).toBe("ask");
    }
    expect(judge(second, "devbox", "secret")).toBe("allow");
    expect(grants.find({ ...given, nodeId: second, canonicalPath: undefined })).toBeUndefined();

    // The gateway knows no home of its nodes, and takes none of its own for one.
    for (const field of ["read", "write", "deny"]) {
      const text = `files:\n  home: { ${field}: ["~/x"] }\n`;
      expect(() => createPolicy({ file: { name: "policy.yaml", text } })).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: `files.home.${field}` } }),
      );
    }
    const beneath = { home: "/home/u", root: "/home/u/work/app" };
    const denies = nodePolicy({ deny: ["~/work/app/secret", "~/*/app/tmp"] }, beneath);
    expect([denies("secret/x"), denies("tmp"), denies("work/app/secret"), denies("~/x")]).toEqual([
      "deny",
      "deny",
      "allow",
      "allow",
    ]);
    const allows = nodePolicy({ read: ["~/work/app/src", "~/elsewhere", "~/**/docs"] }, beneath);
    expect([allows("src/a"), allows("elsewhere"), allows("a/docs"), allows("other")]).toEqual([
      "allow",
      "deny",
      "allow",
      "deny",
    ]);
    expect(nodePolicy({ deny: ["~/work"] }, beneath)("anything")).toBe("deny");
    expect(nodePolicy({ deny: ["~/work/*"] }, beneath)("anything")).toBe("deny");
    expect(nodePolicy({ deny: ["~/other"] }, beneath)("anything")).toBe("allow");
    const above = { home: "/home/u", root: "/home" };
    const inHome = nodePolicy({ deny: ["~/secret"] }, above);
    expect([inHome("u/secret/x"), inHome("secret"), inHome("v/secret")]).toEqual(["deny", "allow", "allow"]);
    expect(nodePolicy({ deny: ["~"] }, above)("u/x")).toBe("deny");
    const windows = { home: "C:\\Users\\u", root: "C:\\Users\\u\\app", platform: "windows" as const };
    const there = nodePolicy({ deny: ["~\\app\\secret\\**", "~/app/other"] }, windows);
    expect([there("secret/x"), there("other"), there("src")]).toEqual(["deny", "deny", "allow"]);
    expect(nodePolicy({ deny: ["~\\x"] }, { ...windows, root: "D:\\app" })("x")).toBe("allow");
  },
);
