import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFilePolicy } from "../../../node-agent/workspace/file-policy.ts";
import { isFault } from "../../../shared/fault/fault.ts";
import { createGlob, createGlobSet } from "../../../shared/names/glob.ts";
import { decodeListCursor, encodeListCursor } from "../../../shared/names/list-cursor.ts";
import { findDeadDenials, findDenying, judgePath, type PathRules } from "../../../shared/names/path-rules.ts";
import { parseWorkspacePath, type WorkspacePath } from "../../../shared/names/workspace-path.ts";
import { proves } from "../../support/proves.ts";
import { exportOf } from "../workspace/temp-exports.ts";

const p = parseWorkspacePath;

proves("files.policy-order", "each step of the order decides before the ones behind it and is named", () => {
  const always = rules({ ask: "always" });
  const onMiss = rules({ ask: "on-miss" });
  expect(judgePath(always, "src/../secret")).toEqual({ decision: "deny", rule: "dot_dot" });
  expect(judgePath(always, "src/secret")).toEqual({ decision: "deny", rule: "deny **/secret" });
  expect(judgePath(always, "src/a")).toEqual({ decision: "ask", rule: "ask always" });
  expect(judgePath(always, "granted")).toEqual({ decision: "ask", rule: "ask always" });
  expect(judgePath(onMiss, "src/a")).toEqual({ decision: "allow", rule: "allow src" });
  expect(judgePath(onMiss, "granted")).toEqual({ decision: "allow", rule: "grant g1" });
  expect(judgePath(onMiss, "granted/child")).toEqual({ decision: "ask", rule: "ask on-miss" });
  expect(judgePath(rules(), "other")).toEqual({ decision: "deny", rule: "no_allow" });
  const policy = createFilePolicy(exportOf("/x", { read: ["src"], deny: ["**/secret"] }));
  const ruleOf = (path: string): unknown => {
    try {
      policy.require("read", p(path));
    } catch (error) {
      return isFault(error, "POLICY_DENIED") ? error.details["rule"] : error;
    }
    return undefined;
  };
  expect(["src/a", "src/secret", "other"].map(ruleOf)).toEqual([undefined, "deny **/secret", "no_allow"]);
});

function rules(changes: Partial<PathRules> = {}): PathRules {
  return {
    deny: createGlobSet(["**/secret"]),
    ask: "off",
    allow: createGlobSet(["src", "docs/*.md"]),
    findGrant: (path) => (path === "granted" || path === "src/secret" ? "g1" : undefined),
    ...changes,
  };
}

test("a denial for want of a rule names the one that came nearest", () => {
  expect(judgePath(rules(), "docs/sub/a.md")).toMatchObject({ rule: "no_allow", nearest: "docs/*.md" });
});

describe("a denied path", () => {
  const deny = createGlobSet(["**/caf\u00e9", "**/.env*", "**/a\nb"]);

  test("stays denied composed and decomposed, with blanks around its names, and below itself", () => {
    for (const path of [
      "caf\u00e9",
      "x/cafe\u0301",
      "cafe\u0301/inner",
      " .env",
      "x/.env.local ",
      ".env/deep/er",
    ]) {
      expect(findDenying(deny, p(path)), JSON.stringify(path)).toBeDefined();
    }
    for (const path of ["cafe", "env", "x/en.v"]) expect(findDenying(deny, p(path))).toBeUndefined();
  });

  test("with a newline in its name is that one and not the one with a slash in its place", () => {
    expect(findDenying(deny, p("x/a\nb"))).toBeDefined();
    expect(findDenying(deny, p("x/a/b"))).toBeUndefined();
  });

  test("stays denied in other case where case is ignored", () => {
    expect(findDenying(createGlobSet(["**/.env*"], { foldCase: true }), p("x/.ENV"))).toBeDefined();
  });
});

const pairedGlobs = [
  "**/.ssh/**",
  "**/*.pem",
  "**/id_*",
  "**/.env*",
  ".git",
  "d/",
  "**",
  "*",
  "[x]",
  "{src,lib}/**",
];

test("every deny glob is tried against what its own text says it must catch", () => {
  const patterns = [...pairedGlobs, "x{1..3}", "{a,{b,c}}/d", "{,x}a", "a?b*", String.raw`\*\{`, "caf\u00e9"];
  expect(findDeadDenials(createGlobSet(patterns)).map(({ pattern }) => pattern)).toEqual([]);
  expect(findDeadDenials(createGlobSet(["{foo..bar}"])).map(({ pattern }) => pattern)).toEqual([
    "{foo..bar}",
  ]);
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...Array.from("ab.*?{,}/[(+!@ ")), maxLength: 12 }),
      (pattern) => {
        let glob;
        try {
          glob = createGlob(pattern);
        } catch {
          return;
        }
        // Whatever compiles either denies its sample or is found out.
        const dead = findDeadDenials(createGlobSet([pattern])).length > 0;
        expect(dead || glob.covers(glob.sample as WorkspacePath)).toBe(true);
      },
    ),
    { numRuns: 2000 },
  );
});

describe("a cursor", () => {
  const scope = { path: p("src"), recursive: true };

  test("opens where it was made, for names of any kind", () => {
    for (const last of ["src/a", "src/a\nb", "src/é😀", "src/x\\xff"]) {
      expect(decodeListCursor(scope, encodeListCursor(scope, last))).toBe(last);
    }
  });

  test("that was altered or belongs to another listing is refused", () => {
    const cursor = encodeListCursor(scope, "src/a");
    const refused = expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "cursor" } });
    for (let index = 0; index < cursor.length; index += 1) {
      const other = cursor[index] === "A" ? "B" : "A";
      expect(() => decodeListCursor(scope, cursor.slice(0, index) + other + cursor.slice(index + 1))).toThrow(
        refused,
      );
    }
    for (const text of ["", "x", `${cursor}A`, `${cursor}=`, "!!!!"])
      expect(() => decodeListCursor(scope, text)).toThrow(refused);
    expect(() => decodeListCursor({ ...scope, recursive: false }, cursor)).toThrow(refused);
    expect(() => decodeListCursor({ ...scope, path: p("lib") }, cursor)).toThrow(refused);
  });
});
