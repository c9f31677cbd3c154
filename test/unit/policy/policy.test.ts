import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ToolLists } from "../../../gateway/policy/policy-file.ts";
import { createPolicy, type Policy } from "../../../gateway/policy/policy.ts";
import { toCanonicalName } from "../../../gateway/policy/tool-names.ts";
import { describeSchema } from "../../../gateway/tools/descriptor.ts";
import { computeSurface, type Candidate } from "../../../gateway/tools/surface.ts";
import type { ToolEffect } from "../../../shared/core-tools/core-tools.ts";
import { isFault } from "../../../shared/fault/fault.ts";
import { proves } from "../../support/proves.ts";

const node = { alias: "devbox", profile: "full" } as const;
const schema = describeSchema({ type: "object" });

function makeCandidate(name: string, effect: ToolEffect = "read"): Candidate {
  const own = name.split("__").at(-1) ?? name;
  const description = {
    ...schema,
    name: own,
    title: "",
    description: "",
    effect,
    callClass: "idempotent",
  } as const;
  return {
    name,
    owner: name.includes("__") ? "node" : "core",
    description: { ...description, asks: false },
    nodeName: own,
    node: { id: "1", platform: "linux", alias: "devbox" },
  };
}

const candidates = [
  makeCandidate("exec", "execute"),
  makeCandidate("read"),
  makeCandidate("write", "write"),
  makeCandidate("devbox__exec", "execute"),
  makeCandidate("devbox__search"),
  makeCandidate("devbox__read"),
];

function surfaceNames(policy: Policy, profile: "read" | "work" | "full" = "full"): readonly string[] {
  return surfaceOf(policy, profile).tools.map(({ name }) => name);
}

function surfaceOf(
  policy: Policy,
  profile: "read" | "work" | "full" = "full",
): ReturnType<typeof computeSurface> {
  return computeSurface({
    candidates,
    decide: (candidate) =>
      policy.decideTool({
        agent: "coder",
        node: { alias: "devbox", profile },
        name: candidate.name,
        ownName: candidate.description.name,
        effect: candidate.description.effect,
      }),
  });
}

const withAgent = (lists: ToolLists): Policy => createPolicy({ agents: { coder: lists } });
const all = surfaceNames(createPolicy());

proves("policy.deny-beats-allow", "a tool that one layer allows and denies is removed by the deny", () => {
  const surface = surfaceOf(withAgent({ allow: ["read", "devbox__read"], deny: ["read"] }));
  expect(surface.tools.map(({ name }) => name)).toEqual([]);
  expect(surface.removed.find(({ name }) => name === "read")).toMatchObject({
    step: "policy",
    rule: "agents.coder.deny",
    layer: "agents.coder",
  });
});

proves(
  "policy.no-list-is-not-an-empty-list",
  "no allow list restricts nothing, an empty one allows nothing, and deny works in both",
  () => {
    expect(surfaceNames(withAgent({}))).toEqual(all);
    expect(surfaceNames(withAgent({ allow: [] }))).toEqual([]);
    expect(surfaceNames(withAgent({ deny: ["search", "devbox__search"] }))).toEqual(
      all.filter((name) => name !== "devbox__search"),
    );
    const both = surfaceOf(withAgent({ allow: [], deny: ["read"] }));
    expect(both.removed.find(({ name }) => name === "read")?.rule).toBe("agents.coder.deny");
    expect(both.removed.find(({ name }) => name === "write")?.rule).toBe("agents.coder.allow");
  },
);

proves("policy.patterns", "entries mean canonical names, in any case, with * alone as wildcard", () => {
  expect(surfaceNames(withAgent({ allow: ["READ", " Bash "] }))).toEqual(["exec", "read"]);
  expect(surfaceNames(withAgent({ allow: ["devbox__*"] }))).toEqual(all);
  expect(surfaceNames(withAgent({ deny: ["devbox__*"] }))).toEqual([]);
  expect(surfaceNames(withAgent({ allow: ["other__*"] }))).toEqual([]);
  expect(surfaceNames(withAgent({ allow: ["re?d", "[r]ead", "r.ad", "rea"] }))).toEqual([]);
  expect(surfaceNames(withAgent({ allow: ["*box__se*ch"] }))).toEqual(["devbox__search"]);
});

const entries = fc.array(
  fc.oneof(
    fc.constantFrom(
      "*",
      "read",
      "write",
      "exec",
      "devbox__*",
      "devbox__exec",
      "group:fs",
      "group:runtime",
      "*__read",
    ),
    fc.string({ maxLength: 6 }).map((text) => text.trim() || "x"),
  ),
  { maxLength: 4 },
);
const lists = fc.record({ allow: entries, deny: entries }, { requiredKeys: [] });

proves("policy.only-narrows", "another layer never adds a tool, and a later * restores nothing", () => {
  const toPolicy = (first: ToolLists, second: ToolLists, third: ToolLists): Policy =>
    createPolicy({
      agents: { coder: second },
      file: {
        name: "policy.yaml",
        text: JSON.stringify({ tools: first, agents: { coder: third } }),
      },
    });
  fc.assert(
    fc.property(lists, lists, lists, (first, second, third) => {
      const before = new Set(surfaceNames(toPolicy(first, {}, {})));
      const after = surfaceNames(toPolicy(first, second, third));
      expect(after.filter((name) => !before.has(name))).toEqual([]);
      expect(surfaceNames(toPolicy(first, { allow: ["*"] }, { allow: ["*"] }))).toEqual([...before]);
    }),
  );
});

describe("profiles", () => {
  const decide = (profile: "read" | "work" | "full", effect: ToolEffect): string => {
    const { decision, rule } = createPolicy().decideTool({
      agent: "coder",
      node: { alias: "devbox", profile },
      name: "devbox__x",
      ownName: "x",
      effect,
    });
    return `${decision} ${rule}`;
  };

  test("read looks, work also writes and asks for commands, full does all", () => {
    expect(decide("read", "read")).toBe("allow default");
    expect(decide("read", "write")).toBe("deny profile.read");
    expect(decide("read", "execute")).toBe("deny profile.read");
    expect(decide("work", "write")).toBe("allow default");
    expect(decide("work", "execute")).toBe("ask profile.work");
    expect(decide("full", "execute")).toBe("allow default");
  });

  test("of an agent narrow those of nodes, and never widen them", () => {
    const policy = withAgent({ profile: "read" });
    const question = { agent: "coder", name: "devbox__exec", ownName: "exec", effect: "execute" } as const;
    expect(policy.decideTool({ ...question, node })).toMatchObject({
      decision: "deny",
      rule: "agents.coder.profile",
    });
    const wide = withAgent({ profile: "full" });
    expect(wide.decideTool({ ...question, node: { alias: "devbox", profile: "read" } })).toMatchObject({
      decision: "deny",
      rule: "profile.read",
    });
  });

  test("hold for files as for the tools that do the same", () => {
    const policy = createPolicy({ agents: { coder: { deny: ["write"] } } });
    const ask = (
      agent: string,
      profile: "read" | "full",
      verb: "list" | "write" | "remove" | "move" | "mkdir",
    ): string => policy.decideFile({ agent, node: { id: "1", alias: "devbox", profile }, verb }).rule;
    expect(ask("other", "read", "list")).toBe("default");
    for (const verb of ["write", "remove", "move", "mkdir"] as const) {
      expect(ask("other", "read", verb)).toBe("profile.read");
      expect(ask("coder", "full", verb)).toBe("agents.coder.deny");
    }
  });
});

test("denying a core tool's name or its group denies it on every node", () => {
  expect(surfaceNames(withAgent({ deny: ["exec"] }))).not.toContain("devbox__exec");
  expect(surfaceNames(withAgent({ deny: ["group:runtime"] }))).not.toContain("devbox__exec");
  expect(surfaceNames(withAgent({ allow: ["exec"] }))).toEqual(["exec"]);
});

test("names are canonical", () => {
  expect(toCanonicalName(" Bash ")).toBe("exec");
  expect(toCanonicalName("apply-patch")).toBe("apply_patch");
  expect(toCanonicalName("devbox__BASH")).toBe("devbox__exec");
  expect(toCanonicalName("constructor")).toBe("constructor");
});

describe("a policy file with a mistake", () => {
  const refuse = (text: string): unknown => {
    try {
      createPolicy({ file: { name: "policy.yaml", text } });
    } catch (error) {
      if (isFault(error, "INVALID_ARGUMENT")) return error.details;
    }
    return undefined;
  };

  test("is refused with its line and field", () => {
    expect(refuse("tools:\n  deny: [exec]\n  denny: [x]\n")).toMatchObject({ line: 3, field: "tools.denny" });
    expect(refuse("agents:\n  coder:\n    allow: exec\n")).toMatchObject({
      line: 3,
      field: "agents.coder.allow",
    });
    expect(refuse("agents:\n  coder:\n    profile: all\n")).toMatchObject({
      line: 3,
      field: "agents.coder.profile",
    });
    expect(refuse("tools: [\n")).toMatchObject({ line: expect.any(Number) as number });
    expect(refuse("tools: {}\ntools: {}\n")).toMatchObject({ line: 2 });
  });

  test("an empty one says nothing", () => {
    expect(surfaceNames(createPolicy({ file: { name: "policy.yaml", text: "" } }))).toEqual(all);
  });
});
