import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isFault } from "../../../shared/fault/fault.ts";
import { createGlob, createGlobSet, escapeGlob } from "../../../shared/names/glob.ts";
import { judgePath } from "../../../shared/names/path-rules.ts";
import { parseWorkspacePath } from "../../../shared/names/workspace-path.ts";
import { proves } from "../../support/proves.ts";

const p = parseWorkspacePath;

/** Pattern, path, whether it is meant. */
const pairs: readonly (readonly [string, string, boolean])[] = [
  ["**/x", "x", true],
  ["**/x", "a/b/x", true],
  ["**/x", "a/x/b", false],
  ["**", "", true],
  ["**", ".hidden/.deep", true],
  ["**", "a\nb/c", true],
  ["*", ".dot", true],
  ["*", "a/b", false],
  ["*.ts", "main.ts", true],
  ["*.ts", "src/main.ts", false],
  ["**/*.ts", "main.ts", true],
  ["**/*.ts", "src/deep/main.ts", true],
  ["**/.ssh/**", ".ssh", true],
  ["**/.ssh/**", "home/.ssh", true],
  ["**/.ssh/**", "home/.ssh/id", true],
  ["**/.ssh/**", "home/.sshx", false],
  ["**/cache-*/**", "a/cache-1", true],
  ["**/cache-*/**", "a/cache-1/x/y", true],
  ["{src,lib}/*.ts", "lib/a.ts", true],
  ["{src,lib}/**", "src", true],
  ["{src,lib}", "lib/deep/file", true],
  ["**/*.{pem,key}", "etc/server.key", true],
  ["**/{.git,.hg}/**", "x/.git/config", true],
  ["d", "d", true],
  ["d", "d/child/grandchild", true],
  ["d/", "d/.dotfile", true],
  ["d/*", "d/child", true],
  ["d/*", "d/child/grandchild", false],
  ["d/*", "d", false],
  ["d", "d2/x", false],
  ["[x]", "[x]", true],
  ["[x]", "x", false],
  ["app/(group)/page.tsx", "app/(group)/page.tsx", true],
  ["(a|b)", "a", false],
  ["!a", "b", false],
  ["!a", "!a", true],
  ["+(a)", "aa", false],
  ["a?c", "abc", true],
  ["a?c", "a/c", false],
  [String.raw`\*`, "*", true],
  [String.raw`\*`, "x", false],
  [String.raw`\b`, "b", true],
  ["a\nb", "a\nb", true],
  ["a\nb", "a/b", false],
  ["a/b", "a\nb", false],
  ["**/*secret", "a\nb/secret", true],
  ["K.pem", "k.pem", false],
];

proves("files.policy-globs", "a table of pairs holds, and a literal grant has no wildcards", () => {
  expect(pairs.length).toBeGreaterThanOrEqual(30);
  for (const [pattern, path, meant] of pairs) {
    expect(createGlob(pattern).matches(p(path)), `${pattern} on ${path}`).toBe(meant);
  }
  expect(createGlob("**/.ssh/**").covers(p("home/.ssh"))).toBe(true);
  const grants = new Set(["*", "?", "[x]"]);
  const granting = { deny: createGlobSet([]), ask: "off", allow: createGlobSet([]) } as const;
  const findGrant = (path: string): string | undefined => (grants.has(path) ? "g" : undefined);
  for (const path of ["*", "?", "[x]", "a", "x", "ab"]) {
    const { decision } = judgePath({ ...granting, findGrant }, path);
    expect(decision, path).toBe(grants.has(path) ? "allow" : "deny");
    expect(createGlob(escapeGlob("*")).matches(p(path))).toBe(path === "*");
    expect(createGlob(escapeGlob("?")).matches(p(path))).toBe(path === "?");
    expect(createGlob(escapeGlob("[x]")).matches(p(path))).toBe(path === "[x]");
  }
});

describe("a glob", () => {
  test("covers what lies below what it means, so that a denied folder is closed with all it holds", () => {
    const glob = createGlob("**/id_*");
    expect(glob.matches(p("a/id_keys/private"))).toBe(false);
    expect(glob.covers(p("a/id_keys/private"))).toBe(true);
    expect(glob.covers(p("a"))).toBe(false);
  });

  test("is blind to case only where that is asked for", () => {
    expect(createGlob("**/.ENV", { foldCase: true }).matches(p("x/.env"))).toBe(true);
    expect(createGlob("**/.ENV").matches(p("x/.env"))).toBe(false);
  });

  test.each(["", "a/../b", "../a", "a//b", "./..", "{a,b", "a}", "{a}}", "a\0", "x".repeat(1025), "\ud800"])(
    "%j is refused",
    (pattern) => {
      expect(() => createGlob(pattern, { field: "deny" })).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "deny" } }),
      );
    },
  );

  test("a leading / or ./ and a trailing / say nothing", () => {
    for (const pattern of ["src", "/src", "./src", "src/"])
      expect(createGlob(pattern).matches(p("src/a"))).toBe(true);
  });

  test("knows the folder in which its wildcards begin", () => {
    expect(createGlob("a/b/*.ts").base).toBe("a/b");
    expect(createGlob("a/b").base).toBe("a/b");
    expect(createGlob("**/b").base).toBe("");
    expect(createGlob("a/{b,c}/d").base).toBe("a");
  });

  test("escaped, any path means exactly itself and what lies below", () => {
    const name = fc
      .string({ unit: "binary", minLength: 1, maxLength: 12 })
      .filter((text) => text !== "." && text !== ".." && !/[/\0]/.test(text) && text.isWellFormed());
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), name, (names, other) => {
        const path = p(names.join("/"));
        const glob = createGlob(escapeGlob(path));
        expect(glob.matches(path)).toBe(true);
        expect(glob.matches(p(`${path}/${other}`))).toBe(true);
        if (other !== names[0]) expect(glob.matches(p(other))).toBe(false);
      }),
      { numRuns: 1000 },
    );
  });

  test("any text either is refused or compiles and never throws on a path", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 30 }), (pattern) => {
        try {
          createGlob(pattern).covers(p("some/path.ts"));
        } catch (error) {
          expect(isFault(error, "INVALID_ARGUMENT")).toBe(true);
        }
      }),
      { numRuns: 1000 },
    );
  });
});

test("a set answers with the first glob that means the path", () => {
  const set = createGlobSet(["**/*.pem", "**/.ssh/**", "keys"]);
  expect(set.find(p("keys/a.pem"))?.pattern).toBe("**/*.pem");
  expect(set.find(p("keys/a"))?.pattern).toBe("keys");
  expect(set.find(p("src"))).toBeUndefined();
  expect(set.findCovering(p("a.pem/inner"))?.pattern).toBe("**/*.pem");
});
